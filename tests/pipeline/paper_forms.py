"""More closed forms of the thesis on LoCaMu, beside those of the report (`figures.formulas`), for tests."""

from collections.abc import Iterable

from resprout_lab.figures.formulas import PAIR, WORD


def subtree_group_sizes(levels: int) -> list[int]:
    """One group for each subtree of a complete binary tree that has more than one node: 255 with 3,841 memberships in
    one of 9 levels, which has 511 nodes."""
    return [2 ** (levels - level) - 1 for level in range(levels - 1) for _ in range(2**level)]


def cbcast_header_compressed(sizes: Iterable[int]) -> int:
    """If everything has changed: a name for each group, a name and a number for each of its members. 12 bytes for
    `G1[1:1]`, one entry of one group."""
    return sum(WORD + PAIR * size for size in sizes)


def delta_header(faults: int) -> int:
    """A name and a number for each of 2f + 1 visited nodes."""
    return PAIR * (2 * faults + 1)


def messages_per_second(bandwidth_bps: int, message_bytes: int, copies: int = 2) -> float:
    """What a node can pass on, so often, and nothing else: the ceiling of a binary tree."""
    return bandwidth_bps / 8 / (message_bytes * copies)


def confirmed_per_second(hops: int, latency_us: int) -> float:
    """Of a publisher with one message under way, to nodes so many hops away that confirm it: one for each round trip.
    62.5 from the root of 511 nodes with 1 ms."""
    return 1_000_000 / (2 * hops * latency_us)
