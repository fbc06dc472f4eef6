"""The definitions about messages with ids, checked pair by pair, without code of the judge. For traces with one durable
subscription `d` on the topic `t`, of publications of `p` that are all safe, in which brokers may die."""

from resprout.trace.schema import Row

WINDOW_US = 120_000_000
SURE_US = 2_000_000
QUIET_US = 15_000_000


def repeat_findings(rows: list[Row]) -> set[tuple[str, int]]:
    """("repeated", number): handed out though it repeats another; ("missing", number): handed to nobody."""
    made = {row.seq or 0: row for row in rows if row.kind == "publish"}
    first: dict[int, int] = {}
    for at, row in enumerate(rows):
        if row.kind == "handed":
            first.setdefault(row.seq or 0, at)

    def id_of(number: int) -> str | None:
        return (made[number].attributes or {}).get("message.id")

    def ended_us(at: int) -> int:
        """When the consumer of a hand-out was over."""
        over = [row.time_us for row in rows[at:] if row.kind in ("crash", "consume_over") and row.node == rows[at].node]
        return over[0] if over else 1 << 60

    def shaken(from_us: int, to_us: int) -> bool:
        return any(
            row.kind == "crash" and row.node == "b0" and from_us - QUIET_US < row.time_us <= to_us for row in rows
        )

    found: set[tuple[str, int]] = set()
    for number, at in first.items():
        earlier = [other for other, place in first.items() if place < at and id_of(other) == id_of(number) is not None]
        if not earlier:
            continue
        before = first[max(earlier, key=lambda other: first[other])]
        one, two = rows[before], rows[at]
        began_us = min(made[number].time_us, made[one.seq or 0].time_us)
        is_marked = "redelivered" in (two.attributes or {})
        is_unknown = is_marked and ended_us(before) <= two.time_us and shaken(one.time_us, two.time_us)
        if two.time_us - began_us < WINDOW_US and not is_unknown:
            found.add(("repeated", number))
    for number, row in made.items():
        same = [
            other for other in made if other != number and id_of(other) == id_of(number) is not None and other in first
        ]
        stands = any(row.time_us - rows[first[other]].time_us <= WINDOW_US + SURE_US for other in same)
        if number not in first and not stands:
            found.add(("missing", number))
    return found
