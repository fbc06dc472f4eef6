"""Nothing invented, nothing unasked, nothing twice, positions without gaps, publications numbered in order.

*Invented*: a delivery without a publication before it in the trace, or one whose topic, keys or guarantee are not those
of its publication. *Unasked*: a delivery while no subscription that matches it was open (asked for, and not over).
*Twice*: the same publication again to the same life of a client; once is enough for all its subscriptions together.
"""

from collections.abc import Iterator

from resprout.audit.history import History
from resprout.audit.naming import seconds
from resprout.audit.owed import matches
from resprout.audit.records import NEVER, ClientLife, DeliveryRecord, PublicationRecord
from resprout.audit.verdict import Anomaly


def check_identity(history: History) -> Iterator[Anomaly]:
    """(incarnation, seq) must grow with every publication of a client's stream."""
    newest: dict[tuple[str, str], PublicationRecord] = {}
    for p in history.publications:
        publisher, incarnation, stream, seq = p.id
        last = newest.get((publisher, stream))
        if last is not None and (incarnation, seq) < (last.id[1], last.id[3]):
            name, other = history.name(p.number), history.name(last.number)
            text = f"{publisher} published {name} at {seconds(p.time_us)}, after {other}, which has a higher number"
            yield Anomaly("identity", p.time_us, publisher, (name, other), text)
        else:
            newest[publisher, stream] = p
    for p in history.repeated:
        name = history.naming.message(p.id)
        text = f"{p.id[0]} published {name} again at {seconds(p.time_us)}; the number was taken"
        yield Anomaly("identity", p.time_us, p.id[0], (name,), text)


def check_presence(history: History) -> Iterator[Anomaly]:
    """Invented, unasked and twice."""
    for life in history.lives:
        asked = _Asked(life)
        before: dict[int, DeliveryRecord] = {}
        for d in life.deliveries:
            if (wrong := _invented(history, d)) is not None:
                text = f"{life.name} delivered {history.naming.message(d.id)} at {d.position}, {wrong}"
                yield Anomaly("invented", d.time_us, life.node, (history.naming.message(d.id),), text)
            if d.number < 0:
                continue
            p = history.publications[d.number]
            if (first := before.setdefault(d.number, d)) is not d:
                name = history.name(d.number)
                text = f"{life.name} delivered {name} at {d.position}, which it had delivered at {first.position}"
                yield Anomaly("twice", d.time_us, life.node, (name,), text)
            elif not asked.at(d.row, p):
                name = history.name(d.number)
                text = f"{life.name} delivered {name} on {p.topic} at {d.position}; no subscription asked for it then"
                yield Anomaly("unasked", d.time_us, life.node, (name,), text)


def check_positions(history: History) -> Iterator[Anomaly]:
    for life in history.lives:
        expected = 0
        for d in life.deliveries:
            if d.position != expected:
                name = history.naming.message(d.id)
                text = f"{life.name} delivered {name} at {d.position}, where {expected} was next"
                yield Anomaly("position", d.time_us, life.node, (name,), text)
            expected = d.position + 1


def _invented(history: History, d: DeliveryRecord) -> str | None:
    if d.number < 0:
        return "which nobody published"
    p = history.publications[d.number]
    if d.row < p.row:
        return f"before it was published at {seconds(p.time_us)}"
    if d.topic is not None and d.topic != p.topic:
        return f"on topic {d.topic}, but it was published on {p.topic}"
    if d.guarantee is not None and d.guarantee != p.guarantee.label:
        return f"as {d.guarantee}, but it was published as {p.guarantee.label}"
    if d.keys is not None and d.keys != p.keys:
        return f"with keys {', '.join(d.keys) or 'none'}, but it was published with {', '.join(p.keys) or 'none'}"
    return None


class _Asked:
    """What one subscriber has open. Most deliveries are answered by a look at the subscriptions without condition and
    end that match their topics; the rest are tried one by one."""

    def __init__(self, life: ClientLife) -> None:
        self._subscriptions = life.subscriptions
        self._lasting = [s for s in life.subscriptions if s.predicate.where is None and s.ended == NEVER]
        self._since: dict[tuple[str, ...], int] = {}

    def at(self, row: int, publication: PublicationRecord) -> bool:
        since = self._since.get(publication.topics)
        if since is None:
            asked = (s.asked for s in self._lasting if matches(s.predicate, publication))
            since = self._since[publication.topics] = min(asked, default=NEVER)
        if since < row:
            return True
        return any(s.asked < row < s.ended and matches(s.predicate, publication) for s in self._subscriptions)
