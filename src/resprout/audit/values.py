"""Last values: are writes to keys linearizable, are reads causal, and do subscriptions begin with the last values?

Every retained publication has a *place* in the order of totals, which is also its revision. The trace tells it in many
rows: deliveries, values that subscriptions begin with, reads, and outcomes of writes. `ValueHistory` joins these and
replays the writes of each topic in the order of their places. A topic is *known* if every retained publication on it
that may have been applied has a place; others are not judged, and counted.

- `kv_writes`: a write has one place and a place one write; what its writer was told agrees with the replay; and a
  write that was told to its writer before another one began has the lower place. So the order of places is a
  linearization: an order of all writes that respects real time and explains every outcome.
- `kv_reads`: a read returns the values at its place, no older than anything that the reader had seen before it
  asked: its own writes and reads, messages, and what their publishers had seen.
- `retained`: the values that a subscription begins with are those at one place, each topic once; from there on the
  subscriber gets every retained publication, in the order of places, and none of them before the values. No message
  comes after a value that its publisher published later.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from resprout.audit.records import MessageId
from resprout.audit.verdict import Anomaly
from resprout.core.guarantee import Guarantee
from resprout.filters.predicate import topic_matches
from resprout.trace import kinds
from resprout.trace.schema import Row, values
from resprout.values.rows import RETAIN_KEY, expected_of, removes

VALUE_RULES: Final = ("kv_writes", "kv_reads", "retained")
NO_VALUES: Final = "nothing was retained"
NO_READS: Final = "no client read last values"
NO_SUBSCRIPTIONS: Final = "no subscription began with last values"
_SERVES: Final = " serves this client now"


class Write(NamedTuple):
    """A retained publication."""

    id: MessageId
    topic: str
    expected: int | None
    removes: bool
    begun_us: int


class Outcome(NamedTuple):
    """What a writer was told."""

    time_us: int
    node: str
    write: MessageId
    place: int
    is_applied: bool
    current: int


class Read(NamedTuple):
    time_us: int
    node: str
    filter: str
    place: int
    seen: int
    """The highest place that the reader had seen when it asked."""
    found: dict[str, int]
    """Revision by topic."""
    is_whole: bool


class Episode:
    """One subscription that begins with last values, from the request to its end or to the end of the client."""

    def __init__(self, node: str, filter: str, seen: int, begin: int) -> None:
        self.node = node
        self.filter = filter
        self.seen = seen
        """The highest place that the subscriber had seen; -1 if it had come from another broker."""
        self.begin = begin
        self.found: dict[str, int] = {}
        self.twice = ""
        """A topic that came twice."""
        self.given: list[tuple[str, int]] = []
        """Deliveries of retained publications that match, after the request: topic and place."""
        self.early = 0
        """How many of them came before the last value."""
        self.confirmed_us = -1
        """When it was confirmed; -1 if it was not."""
        self.is_over = False
        self.time_us = 0


class Topic:
    """The retained publications on one topic in the order of their places, and what the replay makes of them."""

    def __init__(self, writes: Sequence[tuple[int, Write]]) -> None:
        self.places = [place for place, _ in writes]
        self.writes = [write for _, write in writes]
        self.after: list[int] = []
        """The revision behind each write; 0: the topic has no value."""
        self.applied: list[bool] = []
        current = 0
        for place, write in writes:
            fits = write.expected is None or write.expected == current
            if fits:
                current = 0 if write.removes else place
            self.applied.append(fits)
            self.after.append(current)

    def at(self, place: int) -> int:
        """Return the revision of the topic at a place; 0 if it had no value."""
        index = bisect_right(self.places, place)
        return self.after[index - 1] if index else 0


class ValueHistory:
    def __init__(self, rows: Iterable[Row], is_whole: bool) -> None:
        self.is_whole = is_whole
        """Whether the run came to rest, so that everything that is owed has come."""
        self.writes: dict[MessageId, Write] = {}
        self.place_of: dict[MessageId, int] = {}
        self.outcomes: list[Outcome] = []
        self.reads: list[Read] = []
        self.episodes: list[Episode] = []
        self.clashes: list[Anomaly] = []
        self._at: dict[int, MessageId] = {}
        self._refused: set[MessageId] = set()
        self._seen: dict[str, int] = {}
        """By client, the highest place that its present life has seen."""
        self._seen_by: dict[MessageId, int] = {}
        """By publication, the highest place that its publisher had seen."""
        self._asked: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._open: dict[str, dict[tuple[str, str | None], Episode]] = defaultdict(dict)
        self._moved: set[str] = set()
        self._given: dict[str, dict[tuple[str, int, str], int]] = defaultdict(dict)
        """By client and origin, the highest number of a value that the client was given."""
        for row in rows:
            self._read(row)
        by_topic: dict[str, list[tuple[int, Write]]] = defaultdict(list)
        unknown: set[str] = set()
        for id, write in self.writes.items():
            if id in self.place_of:
                by_topic[write.topic].append((self.place_of[id], write))
            elif id not in self._refused:
                unknown.add(write.topic)
        self.unknown = unknown
        """Topics with a publication of which it is not known whether, or where, it was applied."""
        self.topics = {topic: Topic(sorted(writes)) for topic, writes in by_topic.items() if topic not in unknown}

    def first_place_after(self, time_us: int) -> float:
        """Return the lowest place of the retained publications that were made after this time."""
        later = (write.id for write in self.writes.values() if write.begun_us > time_us)
        return min((self.place_of[id] for id in later if id in self.place_of), default=math.inf)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, row: Row) -> None:
        match row.kind:
            case kinds.PUBLISH:
                self._publish(row)
            case kinds.DELIVER:
                self._deliver(row)
            case kinds.SUBSCRIBE | kinds.VALUES_AGAIN:
                self._begin(row)
            case kinds.SUBSCRIBED:
                if (episode := self._episode(row)) is not None:
                    episode.confirmed_us = row.time_us
            case kinds.UNSUBSCRIBE:
                if (episode := self._open[row.node].pop((row.filter or "", row.where), None)) is not None:
                    episode.is_over = True
            case kinds.VALUE:
                self._value(row)
            case kinds.VALUES_ASKED:
                self._asked[row.node, row.filter or ""].append(self._seen.get(row.node, -1))
            case kinds.VALUES_READ:
                self._answer(row)
            case kinds.OUTCOME:
                self._outcome(row)
            case kinds.REFUSED if row.publisher is not None:
                self._refused.add(_id(row))
            case kinds.NOTE if (row.detail or "").endswith(_SERVES):
                self._moved.add(row.node)
            case kinds.CRASH | kinds.LEAVE | kinds.SESSION_LOST | kinds.DROPPED:
                self._lose(row)

    def _publish(self, row: Row) -> None:
        id = _id(row)
        self._seen_by[id] = self._seen.get(row.node, -1)
        if row.guarantee == Guarantee.TOTAL.label and RETAIN_KEY in (row.keys or ()) and id not in self.writes:
            topic, attributes = row.topic or "", values(row.attributes)
            payload = b"x" * min(1, row.payload_bytes or 0)
            self.writes[id] = Write(
                id, topic, expected_of(topic, attributes), removes(topic, attributes, payload), row.time_us
            )

    def _deliver(self, row: Row) -> None:
        id = _id(row)
        is_retained = row.tseq is not None and RETAIN_KEY in (row.keys or ())
        if row.guarantee != Guarantee.EVENTUAL.label:
            self._saw(row.node, self._seen_by.get(id, -1))
            if id[3] < self._given[row.node].get(id[:3], 0):
                text = f"{row.node} got {_name(id)} after a value that its publisher published later"
                self.clashes.append(Anomaly("retained", row.time_us, row.node, (_name(id),), text))
        if is_retained and row.tseq is not None:
            self._claim(id, row.tseq, row)
            self._saw(row.node, row.tseq)
            for episode in self._open[row.node].values():
                if topic_matches(episode.filter, row.topic or ""):
                    episode.given.append((row.topic or "", row.tseq))

    def _begin(self, row: Row) -> None:
        key = (row.filter or "", row.where)
        if row.kind == kinds.SUBSCRIBE and (row.attributes or {}).get("retained") != "yes":
            return
        before = self._open[row.node].pop(key, None)
        if before is not None:
            before.is_over = True
        if row.where is None:
            seen = -1 if row.node in self._moved else self._seen.get(row.node, -1)
            episode = self._open[row.node][key] = Episode(row.node, row.filter or "", seen, len(self.episodes))
            episode.time_us = row.time_us
            self.episodes.append(episode)

    def _episode(self, row: Row) -> Episode | None:
        return self._open[row.node].get((row.filter or "", row.where))

    def _value(self, row: Row) -> None:
        assert row.tseq is not None and row.topic is not None, "a value has a topic and a revision"
        self._claim(_id(row), row.tseq, row)
        self._saw(row.node, max(row.tseq, self._seen_by.get(_id(row), -1)))
        given, id = self._given[row.node], _id(row)
        given[id[:3]] = max(id[3], given.get(id[:3], 0))
        episode = self._episode(row)
        if episode is not None:
            if row.topic in episode.found:
                episode.twice = row.topic
            episode.found[row.topic] = row.tseq
            episode.early = len(episode.given)

    def _answer(self, row: Row) -> None:
        asked = self._asked[row.node, row.filter or ""]
        seen = asked.pop(0) if asked else -1
        if row.tseq is None and row.detail is not None and not row.detail.startswith("more"):
            return  # it was refused
        found: dict[str, int] = {}
        for topic, told in (row.attributes or {}).items():
            revision, publisher, incarnation, seq = told.split()
            found[topic] = int(revision)
            self._claim((publisher, int(incarnation), Guarantee.TOTAL.stream, int(seq)), int(revision), row)
        place = row.tseq if row.tseq is not None else -1
        self.reads.append(Read(row.time_us, row.node, row.filter or "", place, seen, found, row.detail is None))
        self._saw(row.node, place)

    def _outcome(self, row: Row) -> None:
        if row.tseq is None:
            return
        about = row.attributes or {}
        self._claim(_id(row), row.tseq, row)
        self._saw(row.node, row.tseq)
        outcome = Outcome(
            row.time_us, row.node, _id(row), row.tseq, about.get("applied") == "yes", int(about.get("current", "0"))
        )
        self.outcomes.append(outcome)

    def _lose(self, row: Row) -> None:
        for episode in self._open.pop(row.node, {}).values():
            episode.is_over = True
        self._given.pop(row.node, None)
        if row.kind in (kinds.CRASH, kinds.LEAVE):
            self._seen.pop(row.node, None)
            self._moved.discard(row.node)
            for key in [key for key in self._asked if key[0] == row.node]:
                del self._asked[key]

    def _saw(self, node: str, place: int) -> None:
        if place > self._seen.get(node, -1):
            self._seen[node] = place

    def _claim(self, id: MessageId, place: int, row: Row) -> None:
        """Note the place of a publication, and whether another row says otherwise."""
        known, other = self.place_of.setdefault(id, place), self._at.setdefault(place, id)
        if known != place:
            text = f"{_name(id)} has the places {known} and {place}"
            self.clashes.append(Anomaly("kv_writes", row.time_us, row.node, (_name(id),), text))
        elif other != id:
            text = f"{_name(id)} and {_name(other)} have one place, {place}"
            self.clashes.append(Anomaly("kv_writes", row.time_us, row.node, (_name(id), _name(other)), text))


def read_values(rows: Sequence[Row], is_whole: bool) -> ValueHistory | None:
    """Return what a trace says of last values; None if nothing was retained."""
    retains = any(row.kind == kinds.PUBLISH and row.keys and RETAIN_KEY in row.keys for row in rows)
    return ValueHistory(rows, is_whole) if retains else None


# -- what is wrong -----------------------------------------------------------------------------------------------------


def check_values(history: ValueHistory) -> Iterator[Anomaly]:
    yield from history.clashes
    yield from check_writes(history)
    yield from check_reads(history)
    for episode in history.episodes:
        yield from check_episode(history, episode)


def check_writes(history: ValueHistory) -> Iterator[Anomaly]:
    """Find writes whose outcome the replay does not explain, and writes that are ordered against real time."""
    for told in history.outcomes:
        write = history.writes.get(told.write)
        if write is None:
            yield _wrong("kv_writes", told.time_us, told.node, told.write, "was told an outcome, and never published")
            continue
        topic = history.topics.get(write.topic)
        if topic is None:
            continue
        index = bisect_right(topic.places, told.place) - 1
        if index < 0 or topic.places[index] != told.place:
            continue  # its place clashes with another
        is_applied, current = topic.applied[index], topic.after[index]
        if (told.is_applied, told.current) != (is_applied, current):
            words = f"applied {told.is_applied} at revision {told.current}"
            text = f"was told {words}; in the order of places it is {is_applied} at {current}"
            yield _wrong("kv_writes", told.time_us, told.node, told.write, text)
    begun: dict[MessageId, int] = {id: write.begun_us for id, write in history.writes.items()}
    ended: dict[MessageId, int] = {}
    for told in history.outcomes:
        ended.setdefault(told.write, told.time_us)
    latest: MessageId | None = None
    for id in sorted((id for id in history.place_of if id in begun), key=history.place_of.__getitem__):
        if latest is not None and id in ended and ended[id] < begun[latest]:
            text = f"ended before {_name(latest)} began, and has a later place"
            yield _wrong("kv_writes", ended[id], id[0], id, text)
        if latest is None or begun[id] > begun[latest]:
            latest = id


def check_reads(history: ValueHistory) -> Iterator[Anomaly]:
    """Find reads that are older than what the reader had seen, or that differ from the values at their place."""
    for read in history.reads:
        if read.place < read.seen:
            text = f"{read.node} read {read.filter} at place {read.place}, and had seen place {read.seen} before"
            yield Anomaly("kv_reads", read.time_us, read.node, (), text)
        for name, topic in history.topics.items():
            if not topic_matches(read.filter, name) or (not read.is_whole and name not in read.found):
                continue
            wanted, got = topic.at(read.place), read.found.get(name, 0)
            if wanted != got:
                text = f"{read.node} read {name} at place {read.place} and got revision {got}; it was {wanted}"
                yield Anomaly("kv_reads", read.time_us, read.node, (), text)


def check_episode(history: ValueHistory, episode: Episode) -> Iterator[Anomaly]:
    """Find a place at which the subscription may have begun; an anomaly if there is none."""
    if episode.twice:
        text = f"{episode.node} was given {episode.twice} twice when it subscribed to {episode.filter}"
        yield Anomaly("retained", episode.time_us, episode.node, (), text)
    if episode.confirmed_us < 0:
        return  # perhaps more values were to come
    topics = {name: topic for name, topic in history.topics.items() if topic_matches(episode.filter, name)}
    strange = [name for name in episode.found if not topic_matches(episode.filter, name)]
    if strange:
        text = f"{episode.node} was given {strange[0]} when it subscribed to {episode.filter}"
        yield Anomaly("retained", episode.time_us, episode.node, (), text)
    least = max([episode.seen, *[revision for name, revision in episode.found.items() if name in topics]])
    most = history.first_place_after(episode.confirmed_us)
    places = [least, *[place for topic in topics.values() for place in topic.places if least < place < most]]
    reason = ""
    for place in sorted(places):
        reason = _differs(history, episode, topics, place)
        if not reason:
            return
    text = f"{episode.node} subscribed to {episode.filter} and was not given the values of any one place: {reason}"
    yield Anomaly("retained", episode.time_us, episode.node, (), text)


def _differs(history: ValueHistory, episode: Episode, topics: dict[str, Topic], place: int) -> str:
    """Return why the subscription cannot have begun at this place; nothing if it can."""
    for name, topic in topics.items():
        if topic.at(place) != episode.found.get(name, 0):
            return f"at {place}, {name} had revision {topic.at(place)}, and it got {episode.found.get(name, 0)}"
    if any(name in topics and at > place for name, at in episode.given[: episode.early]):
        return f"a publication behind {place} came before the last values"
    given: dict[str, list[int]] = defaultdict(list)
    for name, at in episode.given:
        if at > place:
            given[name].append(at)
    for name, topic in topics.items():
        came = given.get(name, [])
        begin = bisect_right(topic.places, place)
        is_complete = history.is_whole and not episode.is_over
        owed = topic.places[begin:] if is_complete else topic.places[begin : begin + len(came)]
        if came != owed:
            return f"behind {place}, {name} changed at {_few(owed)}, and it got {_few(came)}"
    return ""


def value_skips(history: ValueHistory | None) -> dict[str, str]:
    """By rule, why there was nothing to judge."""
    if history is None:
        return dict.fromkeys(VALUE_RULES, NO_VALUES)
    reasons = {}
    if not history.outcomes:
        reasons["kv_writes"] = "no writer was told what became of a write"
    if not history.reads:
        reasons["kv_reads"] = NO_READS
    if not history.episodes:
        reasons["retained"] = NO_SUBSCRIPTIONS
    return reasons


def value_notes(history: ValueHistory | None) -> dict[str, str]:
    """By rule, what part of it was not judged."""
    if history is None or not history.unknown:
        return {}
    count = len(history.unknown)
    text = f"{count} of {count + len(history.topics)} topics not judged: a publication on them has no known place"
    return {rule: text for rule in VALUE_RULES if rule not in value_skips(history)}


def _id(row: Row) -> MessageId:
    return row.publisher or "", row.incarnation or 0, row.stream or "", row.seq or 0


def _name(id: MessageId) -> str:
    return f"{id[0]}.{id[1]}#{id[3]}"


def _few(places: Sequence[int]) -> str:
    return f"{list(places[:5])}" + (" ..." if len(places) > 5 else "")


def _wrong(rule: str, time_us: int, node: str, id: MessageId, text: str) -> Anomaly:
    return Anomaly(rule, time_us, node, (_name(id),), f"{_name(id)} {text}")
