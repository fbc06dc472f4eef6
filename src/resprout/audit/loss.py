"""Nothing lost: what is owed and due at a correct subscriber whose subscription lasts, it delivers.

What was due until the session was lost, and never came, is lost as well; but the client was told (`lost_told`), and can
do something about it. Only a run that came to rest can be judged: before that, what is missing may still be under way.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from resprout.audit.history import History
from resprout.audit.naming import MessageId, seconds
from resprout.audit.records import NEVER
from resprout.audit.verdict import MET_TIME_LIMIT, Anomaly
from resprout.audit.witness import NamedLife, Witness
from resprout.filters.predicate import Predicate

PROBABLE: Final = "the run promises probability: what is missing counts for the reliability"


class MissingDelivery(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What there is to say of a publication that a subscriber has not got."""

    time_us: int
    topic: str
    filter: str
    where: str | None
    """Of the subscription that asked for it."""
    told_us: int = -1
    """When the client was told that deliveries may be missing."""

    @staticmethod
    def asked_for(time_us: int, topic: str, asked: Predicate) -> "MissingDelivery":
        return MissingDelivery(time_us, topic, asked.filter, asked.where_text)

    @property
    def is_told(self) -> bool:
        return self.told_us >= 0


def check_loss(history: History, owed: bytearray) -> Iterator[Anomaly]:
    lives = history.lives
    for p in history.publications:
        if not owed[p.number]:
            continue
        for number, until in history.due[p.number]:
            life = lives[number]
            if life.correct and not life.has(p.number):
                if until == NEVER:
                    asked = history.interest.lasting(number, p)
                    assert asked is not None, "what is due has been asked for"
                    missing = MissingDelivery.asked_for(p.time_us, p.topic, asked)
                elif until in life.losses:
                    missing = MissingDelivery(p.time_us, p.topic, "", None, life.losses[until])
                else:
                    continue
                yield lost(history, life, p.id, missing)


def lost(w: Witness, life: NamedLife, id: MessageId, missing: MissingDelivery, instead: str = "") -> Anomaly:
    """`instead`: what came in its place, while it may still come."""
    name = w.naming.message(id)
    verb = "has not delivered" if instead else "never delivered"
    where = f" where {missing.where}" if missing.where else ""
    why = (
        f"and was told at {seconds(missing.told_us)} that deliveries may be missing"
        if missing.is_told
        else f"though its subscription {missing.filter}{where} was confirmed before"
    )
    text = f"{life.name} {verb} {name}, published on {missing.topic} at {seconds(missing.time_us)}, {instead}{why}"
    return Anomaly("lost_told" if missing.is_told else "lost", missing.time_us, life.node, (name,), text)


def not_judged(history: History) -> str | None:
    """Why loss cannot be judged, when it cannot."""
    if history.ended == "quiescent":
        return None
    if history.ended == "timeout":
        return MET_TIME_LIMIT
    return "the trace has no quiescent row, so deliveries may be missing from its end"
