"""FIFO: at each subscriber, the ordered publications of one client, and of one lane, come in the order of (incarnation,
seq).

Every publication that comes after a later one of its client is an anomaly. The eventual stream may overtake, and is not
looked at. Whoever has deliveries in their order at a subscriber, all at once or as they come, asks about each.
"""

from collections.abc import Hashable, Iterator
from typing import TypeVar

from resprout.audit.history import History
from resprout.audit.naming import MessageId
from resprout.audit.verdict import Anomaly
from resprout.audit.witness import NamedLife, Witness

Line = TypeVar("Line", bound=Hashable)
"""What keeps its order: such as a publisher and a lane."""
Delivered = tuple[MessageId, int]
"""A publication and its position at the subscriber."""
Newest = dict[tuple[str, str], Delivered]
"""The latest at a subscriber, by publisher and lane."""


def overtaken_by(newest: dict[Line, Delivered], line: Line, id: MessageId, position: int) -> Delivered | None:
    """What came before it on this line, though it is later; None when it is in order, and then it is the newest."""
    last = newest.get(line)
    if last is None or (id[1], id[3]) > (last[0][1], last[0][3]):
        newest[line] = (id, position)
        return None
    return last


def check_delivery(
    w: Witness, life: NamedLife, newest: Newest, id: MessageId, lane: str, position: int, time_us: int
) -> Anomaly | None:
    last = overtaken_by(newest, (id[0], lane), id, position)
    if last is None:
        return None
    name, later = w.naming.message(id), w.naming.message(last[0])
    text = f"{life.name} delivered {name} at {position} after {later} at {last[1]}, though {id[0]} published it first"
    return Anomaly("fifo", time_us, life.node, (name, later), text)


def check_fifo(history: History) -> Iterator[Anomaly]:
    for life in history.lives:
        newest: Newest = {}
        for number in life.sequence:
            p = history.publications[number]
            if p.ordered:
                d = life.first[number]
                wrong = check_delivery(history, life, newest, p.id, p.lane, d.position, d.time_us)
                if wrong is not None:
                    yield wrong
