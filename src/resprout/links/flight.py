"""How much of a session may be on its way at once: bounded by time, whatever the link carries.

What was handed to a connection cannot be overtaken any more, by signs of life neither. So no more is handed over than
the link carries in a moment: twice what it took in the shortest round trip and `flight_us`. Twice, so that the bound
finds out by itself when a link carries more.

A frame is *marked* when more waits behind it than may leave: the peer acknowledges it at once. From marked frame to
acknowledgement is a round trip, and what was acknowledged meanwhile tells what the link carries. Nothing is measured,
and nobody is asked for acknowledgements, while there is room for everything.
"""

from typing import Final

from resprout.core import limits

START_BYTES: Final = 64 << 10
"""At most, on a connection of which nothing is known yet, or not any more. As much as a repair usually has to say,
which must not take a second round trip."""
START_BYTES_SHARED: Final = 64 << 10
"""On all connections of a node together: it may begin on all of them at once, and they may share one thin line. Each
has its share of this."""
START_BYTES_FREE: Final = 64 << 10
"""What is pressing takes of this, as long as something is left, before it takes of the share of its connection.
Together with the shares it leaves in 2.1 s at 500 kbit/s, the slowest uplink that a broker may have: less than a
lease."""
START_BYTES_LEAST: Final = 4 << 10
LEAST_BYTES: Final = 4 << 10
MOST_BYTES: Final = 8 << 20
PART_BYTES_MIN: Final = 1 << 10
PART_BYTES_MAX: Final = limits.BUNDLE_BYTES
"""A part of a large message, and what may share a frame: a quarter of what may be on its way, so it is bounded by time,
too. Where a link is fast, nothing has to be taken apart."""
TRIP_US_MAX: Final = 500_000
"""A longer round trip is taken for this: most of it was spent in a queue."""
RATES_KEPT: Final = 16
"""The best of so many tells what the link carries: some are low because there was little to send."""
RATES_US: Final = 1_000_000
"""Rates that were measured longer ago do not count, except the last: other links of the node may have begun to send,
and on a thin line sixteen rates are many seconds."""


def shares(links: int) -> int:
    """For so many: a power of two, so that those that are there need not be told of everyone who comes."""
    return 1 << max(0, links - 1).bit_length()


class Beginnings:
    """What the connections of one node may take beyond their shares while nothing is known of them."""

    __slots__ = ("free_bytes",)

    def __init__(self) -> None:
        self.free_bytes = START_BYTES_FREE


class Flight:
    """Positions are bytes of the session, counted from its beginning."""

    __slots__ = (
        "_beginnings", "_cap_bytes", "_flight_us", "_rates", "_start_bytes", "_trip_us", "bytes_max", "marked", "marks",
        "part_bytes", "taken_bytes",
    )  # fmt: skip

    def __init__(self, flight_us: int) -> None:
        self._flight_us = flight_us
        self._beginnings = Beginnings()
        self.taken_bytes = 0
        """Of what is free for what is pressing."""
        self.marks: list[tuple[int, int, int]] = []
        """Acknowledgements that were asked for: position, when it left, how much was acknowledged by then."""
        self._rates: list[tuple[int, int]] = []
        """When each was measured, and bytes per second."""
        self._trip_us = TRIP_US_MAX
        self._start_bytes = START_BYTES
        self._cap_bytes = START_BYTES
        """A connection begins with at most so much. It is halved when a connection ends before anything was
        acknowledged: a line that is thinner than expected must not be flooded in the same way again."""
        self.marked = 0
        """The position of the latest mark."""
        self.bytes_max = 0
        """So much may be on its way."""
        self.part_bytes = 0
        """So much of it in one part."""
        self._allow(self._start_bytes)

    @property
    def room_bytes(self) -> int:
        """So much the stack may hand over: what waits longer had better wait in its log."""
        return 2 * self.bytes_max if self._rates else START_BYTES

    def share(self, links: int, beginnings: Beginnings) -> None:
        """So many begin at a time, and have these in common."""
        self._start_bytes = max(START_BYTES_LEAST, min(self._cap_bytes, START_BYTES_SHARED // shares(links)))
        if not self.marks and not self._rates:
            self.end()
            self._allow(self._start_bytes)
        if not self.taken_bytes:
            self._beginnings = beginnings

    def is_full(self, bytes_on_way: int, pressing_bytes: int = 0) -> bool:
        """Nothing more may leave now. While nothing is known, so much that is pressing takes of what is free, as far as
        that goes, and leaves the share of its connection to what follows: otherwise publications would wait for the
        acknowledgement of a repair that has come."""
        if pressing_bytes and not self._rates:
            more = min(pressing_bytes, max(0, self._cap_bytes - self.bytes_max), self._beginnings.free_bytes)
            self._beginnings.free_bytes -= more
            self.taken_bytes += more
            self.bytes_max += more
        return bytes_on_way >= self.bytes_max

    def end(self) -> None:
        """Of the beginning, or of the connection: others may begin with what this one took."""
        self._beginnings.free_bytes += self.taken_bytes
        self.taken_bytes = 0

    def begin(self, position: int) -> None:
        """Another connection, perhaps another way."""
        if self.marks and not self._rates:
            self._cap_bytes = max(START_BYTES_LEAST, self._cap_bytes // 2)
            self._start_bytes = min(self._start_bytes, self._cap_bytes)
        self.end()
        self.marks.clear()
        self._rates.clear()
        self._trip_us = TRIP_US_MAX
        self.marked = position
        self._allow(self._start_bytes)

    def rest(self) -> None:
        """Nothing was sent for a while. Others may have begun to use the link, and all may begin again at once."""
        if not self.marks and self.bytes_max > self._start_bytes:
            self.end()
            self._rates.clear()
            self._allow(self._start_bytes)

    def mark(self, position: int, acknowledged: int, now_us: int) -> None:
        self.marked = position
        self.marks.append((position, now_us, acknowledged))

    def acknowledged(self, position: int, now_us: int) -> None:
        """Everything up to here has come."""
        marks = self.marks
        if not marks or marks[0][0] > position:
            return
        while marks and marks[0][0] <= position:
            _, left_us, before = marks.pop(0)
        trip_us = max(1, now_us - left_us)
        self._trip_us = min(self._trip_us, trip_us)
        self._cap_bytes = min(START_BYTES, 2 * self._cap_bytes)
        self.end()
        rates = self._rates
        rates.append((now_us, (position - before) * 1_000_000 // trip_us))
        while rates[0][0] < now_us - RATES_US or len(rates) > RATES_KEPT:
            del rates[0]
        best = max([rate for _, rate in rates])
        self._allow(2 * best * (self._trip_us + self._flight_us) // 1_000_000)
        if self.bytes_max == LEAST_BYTES:
            self._trip_us = min(trip_us, TRIP_US_MAX)  # this little makes no queue: the way has become longer

    def _allow(self, bytes_max: int) -> None:
        self.bytes_max = max(LEAST_BYTES, min(MOST_BYTES, bytes_max))
        self.part_bytes = max(PART_BYTES_MIN, min(PART_BYTES_MAX, self.bytes_max // 4))
