"""How much may be on its way at once, over a line of which only its length and its width are told."""

import pytest

from resprout.links.flight import RATES_US, START_BYTES, TRIP_US_MAX, Beginnings, Flight

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


def test_a_connection_that_ends_before_anything_was_acknowledged_lets_the_next_begin_with_half() -> None:
    """On a line of 500 kbit/s every connection began with the same burst, which took longer than anybody waits."""
    flight = Flight(FLIGHT_US)
    began = flight.bytes_max
    for _ in range(2):
        flight.mark(flight.bytes_max, 0, 0)
        flight.begin(0)
    assert flight.bytes_max == began // 4
    assert not flight.is_full(0, pressing_bytes=began) and flight.bytes_max == began // 4, "what is pressing as well"
    flight.mark(10_000, 0, 0)
    flight.acknowledged(10_000, 1_000)
    flight.begin(10_000)
    flight.share(1, Beginnings())
    assert flight.bytes_max == began // 2, "it trusts the line again, step by step"


def test_a_rate_of_long_ago_does_not_count_where_links_share_a_thin_line() -> None:
    flight = Flight(FLIGHT_US)
    flight.mark(60_000, 0, 0)
    flight.acknowledged(60_000, 1_000_000)
    alone = flight.bytes_max
    flight.mark(70_000, 60_000, 1_000_000)
    flight.acknowledged(70_000, 2_000_000 + RATES_US)
    assert flight.bytes_max < alone // 4
