"""Follow-ups: a message has one at most, and it is published before its consumer is told.

A follow-up is a publication like any other, so the other rules say that every subscriber, durable subscription and log
has it once. It is safe when its consumer was told. A message with a follow-up that is owed is processed.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from resprout.audit.history import History
from resprout.audit.records import MessageId, identity_of, parsed_id, seconds
from resprout.audit.verdict import Anomaly
from resprout.trace.schema import Row, TraceError, values

RULE = "durable"


class Followed(Protocol):
    """What the rows say of the follow-ups of one durable subscription."""

    name: str
    followed: dict[MessageId, MessageId]
    second_follow_ups: list[tuple[MessageId, Row]]
    told_of_follow_up: dict[MessageId, Row]

    @property
    def dead(self) -> Mapping[MessageId, object]: ...


def check_follow_ups(each: Followed, history: History) -> Iterator[Anomaly]:
    for id, row in each.second_follow_ups:
        name = history.naming.message(id)
        text = f"{each.name}: {row.node} published a second follow-up of {name} at {seconds(row.time_us)}"
        yield Anomaly(RULE, row.time_us, row.node, (name,), text)
    for id, row in each.told_of_follow_up.items():
        if id not in each.followed or id in each.dead:
            name, what = history.naming.message(id), "a dead letter" if id in each.dead else "no follow-up"
            text = f"{each.name}: {row.node} was told that the follow-up of {name} is published; there is {what}"
            yield Anomaly(RULE, row.time_us, row.node, (name,), text)


def is_followed(each: Followed, history: History, id: MessageId, owed: bytearray) -> bool:
    """Return whether a message has a follow-up that was not lost with its broker."""
    follow_up = each.followed.get(id)
    return follow_up is not None and bool(owed[history.number_of[follow_up]])


def read_follow_up(number: int, row: Row) -> tuple[str, MessageId, MessageId]:
    """Return the subscription, the message and its follow-up. Raises TraceError for a row that does not say."""
    about = values(row.attributes)
    name, id = about.get("follow_subscription"), about.get("follow_id")
    if not isinstance(name, str) or not isinstance(id, str):
        raise TraceError(f"row {number}: a follow-up that does not say of what")
    return name, parsed_id(number, id), identity_of(number, row)
