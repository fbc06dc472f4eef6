"""How much may be on its way at once, over a line of which only its length and its width are told."""

import pytest

from resprout.links.flight import START_BYTES, TRIP_US_MAX, Beginnings, Flight

FLIGHT_US = 100_000
SECOND = 1_000_000


class Line:
    """Sends as much as a flight allows, without end, and acknowledges what is marked as a real line would."""

    def __init__(self, way_us: int, bytes_per_s: int, links: int = 1) -> None:
        self.flight = Flight(FLIGHT_US)
        self.flight.share(links, Beginnings())
        self.way_us = way_us
        self.bytes_per_s = bytes_per_s
        self.now_us = self.free_us = 0
        self.sent = self.acknowledged = 0
        self.on_way: list[tuple[int, int]] = []
        """When which position will have been acknowledged."""

    def run(self, until_us: int) -> None:
        while self.now_us < until_us:
            while not self.flight.is_full(self.sent - self.acknowledged):
                self.send(self.flight.part_bytes)
            self.now_us, self.acknowledged = self.on_way.pop(0)
            self.flight.acknowledged(self.acknowledged, self.now_us)

    def send(self, part: int) -> None:
        self.sent += part
        self.free_us = max(self.free_us, self.now_us) + part * SECOND // self.bytes_per_s
        self.on_way.append((self.free_us + self.way_us, self.sent))
        self.flight.mark(self.sent, self.acknowledged, self.now_us)

    def queue_us(self) -> int:
        return max(0, self.free_us - self.now_us)


@pytest.mark.parametrize("way_ms", [300, 700, 1_000])
def test_a_long_way_is_filled(way_ms: int) -> None:
    """Not one of more than a second, which cannot be told from a thin line that others fill, too."""
    line = Line(way_ms * 1000, 10_000_000, links=7)
    line.run(60 * SECOND)
    assert line.acknowledged > 60 * START_BYTES


@pytest.mark.parametrize("kbit", [100, 300, 1_000, 10_000])
@pytest.mark.parametrize("way_ms", [1, 100, 400])
def test_the_queue_of_a_thin_line_stays_short(kbit: int, way_ms: int) -> None:
    line = Line(way_ms * 1000, kbit * 125)
    line.run(30 * SECOND)
    first_part_us = START_BYTES // 4 * SECOND // (kbit * 125)
    assert line.queue_us() <= way_ms * 1000 + 2 * FLIGHT_US + 2 * min(first_part_us, TRIP_US_MAX)
    assert line.acknowledged >= 0.7 * 30 * kbit * 125, "and is never empty for long"
