"""Nothing lost: what is owed and due at a correct subscriber whose subscription lasts, it delivers.

What was due until the session was lost, and never came, is lost as well; but the client was told (`lost_told`), and can
do something about it. Only a run that came to rest can be judged: before that, what is missing may still be under way.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from resprout.audit.history import History
from resprout.audit.naming import seconds
from resprout.audit.owed import Due, matches
from resprout.audit.records import NEVER, ClientLife, PublicationRecord
from resprout.audit.verdict import Anomaly

PROBABLE: Final = "the run promises probability: what is missing counts for the reliability"


def check_loss(history: History, due: Sequence[tuple[Due, ...]], owed: bytearray) -> Iterator[Anomaly]:
    lives = history.lives
    for p in history.publications:
        if not owed[p.number]:
            continue
        for number, until in due[p.number]:
            life = lives[number]
            if life.correct and not life.has(p.number):
                if until == NEVER:
                    yield _lost(history, p, life)
                elif until in life.losses:
                    yield _told(history, p, life, until)


def not_judged(history: History) -> str | None:
    """Why loss cannot be judged, when it cannot."""
    if history.ended == "quiescent":
        return None
    if history.ended == "timeout":
        return "the run met its time limit before it came to rest"
    return "the trace has no quiescent row, so deliveries may be missing from its end"


def _lost(history: History, p: PublicationRecord, life: ClientLife) -> Anomaly:
    name = history.name(p.number)
    asked = next(s for s in life.subscriptions if s.confirmed < p.row and matches(s.predicate, p) and s.ending == NEVER)
    where = f" where {asked.predicate.where_text}" if asked.predicate.where_text else ""
    text = (
        f"{life.name} never delivered {name}, published on {p.topic} at {seconds(p.time_us)}, "
        f"though its subscription {asked.predicate.filter}{where} was confirmed before"
    )
    return Anomaly("lost", p.time_us, life.node, (name,), text)


def _told(history: History, p: PublicationRecord, life: ClientLife, row: int) -> Anomaly:
    name = history.name(p.number)
    text = (
        f"{life.name} never delivered {name}, published on {p.topic} at {seconds(p.time_us)}, "
        f"and was told at {seconds(life.losses[row])} that deliveries may be missing"
    )
    return Anomaly("lost_told", p.time_us, life.node, (name,), text)
