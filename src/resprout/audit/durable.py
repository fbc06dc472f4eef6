"""Durable subscriptions are judged by what all their consumers were handed together.

- *lost*: what was published after the subscription was confirmed, matches, and is known to be safe or comes from a
  client that is there to the end, was handed to somebody; judged when the run came to rest and somebody consumes it.
- *invented*: only what was published and matches is handed out.
- *twice*: it is handed out once without saying that it may have been before; and not at all to somebody who has
  acknowledged it.
- *order*: each consumer is handed the ordered publications of a client in the order they were made; of a group, those
  that name a common key.

Not judged: where the oldest are dropped, what is missing.
"""

from collections.abc import Iterator, Sequence

from resprout.audit.history import History
from resprout.audit.naming import MessageId, seconds
from resprout.audit.sense import identity_of
from resprout.audit.verdict import Anomaly
from resprout.core.promises import Promises
from resprout.filters.topics import topic_matches
from resprout.trace import kinds
from resprout.trace.schema import Row

RULE = "durable"
_KINDS = (kinds.CONSUME, kinds.CONSUMING, kinds.HANDED, kinds.ACKNOWLEDGED, kinds.CONSUME_OVER)


_Life = tuple[str, int]
_Handed = tuple[int, Row, _Life]


class _Consumers:
    """What the rows say of one subscription."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.filter = ""
        self.has_condition = False
        self.is_group = False
        self.drops = False
        self.confirmed: int | None = None
        self.handed: dict[MessageId, list[_Handed]] = {}
        self.acknowledged: dict[tuple[_Life, MessageId], int] = {}
        self.lives: dict[str, int] = {}
        """By client: how often it began."""
        self.present: dict[str, None] = {}
        """Who consumes."""


def judge_durables(rows: Sequence[Row], promise: Promises | None = None) -> list[Anomaly]:
    """Every violation, explained. Rows in the order of time."""
    found = _read(rows)
    if not found:
        return []
    history = History(rows, promise or Promises())
    return [anomaly for each in found.values() for anomaly in _judge(each, history)]


def _read(rows: Sequence[Row]) -> dict[str, _Consumers]:
    found: dict[str, _Consumers] = {}
    for number, row in enumerate(rows):
        if row.kind in (kinds.CRASH, kinds.LEAVE):
            for each in found.values():
                each.present.pop(row.node, None)
        if row.kind not in _KINDS:
            continue
        about = row.attributes or {}
        each = found.setdefault(about.get("durable", ""), _Consumers(about.get("durable", "")))
        if row.kind == kinds.CONSUME:
            each.filter, each.has_condition = row.filter or "", row.where is not None
            each.is_group = "group" in about
            each.lives[row.node] = each.lives.get(row.node, 0) + 1
        elif row.kind == kinds.CONSUMING:
            each.confirmed = number if each.confirmed is None else each.confirmed
            each.present[row.node] = None
        elif row.kind == kinds.CONSUME_OVER:
            each.present.pop(row.node, None)
        elif row.kind == kinds.ACKNOWLEDGED:
            life = (row.node, each.lives.get(row.node, 0))
            each.acknowledged.setdefault((life, identity_of(number, row)), number)
        else:
            each.drops |= "dropped" in about
            life = (row.node, each.lives.get(row.node, 0))
            each.handed.setdefault(identity_of(number, row), []).append((number, row, life))
    return found


def _judge(each: _Consumers, history: History) -> Iterator[Anomaly]:
    yield from _handed_rightly(each, history)
    yield from _in_order(each, history)
    if history.is_whole and each.present and not (each.drops or each.has_condition) and each.confirmed is not None:
        yield from _lost(each, history, each.confirmed)


def _handed_rightly(each: _Consumers, history: History) -> Iterator[Anomaly]:
    for id, times in each.handed.items():
        name = history.naming.message(id)
        number = history.number_of.get(id)
        publication = history.publications[number] if number is not None else None
        if publication is None or publication.row > times[0][0]:
            yield _anomaly(times[0][1], name, f"{each.name} was handed {name}, which nobody had published")
        elif not any(topic_matches(each.filter, topic) for topic in publication.topics):
            yield _anomaly(times[0][1], name, f"{each.name} was handed {name}, which does not match {each.filter}")
        first = [row for _, row, _ in times if "redelivered" not in (row.attributes or {})]
        if len(first) > 1:
            text = f"{name} was handed out for the first time to {first[0].node} and to {first[1].node}"
            yield _anomaly(first[1], name, f"{each.name}: {text}")
        for at, row, life in times:
            done = each.acknowledged.get((life, id))
            if done is not None and done < at:
                text = f"{row.node} was handed {name} at {seconds(row.time_us)}, after it had acknowledged it"
                yield _anomaly(row, name, f"{each.name}: {text}")


def _in_order(each: _Consumers, history: History) -> Iterator[Anomaly]:
    latest: dict[tuple[object, ...], tuple[int, str]] = {}
    everything = sorted((at, id) for id, times in each.handed.items() for at, _, _ in times)
    rows = {at: (row, life) for times in each.handed.values() for at, row, life in times}
    for at, id in everything:
        row, life = rows[at]
        publisher, incarnation, stream, seq = id
        if stream == "eventual":
            continue
        origin: tuple[object, ...] = (*life, publisher, incarnation)
        lines = [(*origin, row.topic or "", key) for key in row.keys or ()] if each.is_group else [origin]
        name = history.naming.message(id)
        for line in lines:
            before, named = latest.get(line, (0, ""))
            if before > seq:
                text = f"{row.node} was handed {name} at {seconds(row.time_us)}, after {named}"
                yield _anomaly(row, name, f"{each.name}: {text}")
            else:
                latest[line] = (seq, name)


def _lost(each: _Consumers, history: History, confirmed: int) -> Iterator[Anomaly]:
    safe = {identity_of(number, row) for number, row in history.receipts if row.receipt in ("safe", "delivered")}
    for publication in history.publications:
        if publication.row < confirmed or publication.id in each.handed or publication.id in history.refused:
            continue
        certain = publication.id in safe or history.lives[publication.life].correct
        if certain and any(topic_matches(each.filter, topic) for topic in publication.topics):
            name = history.name(publication.number)
            text = f"{each.name} was never handed {name}, published at {seconds(publication.time_us)}"
            yield Anomaly(RULE, publication.time_us, each.name, (name,), text)


def _anomaly(row: Row, name: str, text: str) -> Anomaly:
    return Anomaly(RULE, row.time_us, row.node, (name,), text)
