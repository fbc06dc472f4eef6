"""Clients of a broker: their publications until these have a place, and clients that come from another broker.

`TopicPublishing`: receipts of a client come in the order of its numbers, over all topics, while its topics have
different leaders. A publication that has its place early waits here until all before it have theirs. A client that
returns with a publication that is under way, or has its place, gets the same receipt.

`ReturningClients`: a client brings its subscriptions and its position on each topic. Before it is served, the leaders
of its topics are asked what they still hold (`AskTopic`). If their logs have everything behind its positions, it
continues: its subscriptions stay confirmed, and trees are rewound to its positions. Otherwise, or if the leaders do not
answer in time, it is told that it may have missed messages, and subscribes again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from resprout.core.bundle import Bundle, Origin, unpack_payloads
from resprout.core.contract import Send
from resprout.core.errors import UsageError
from resprout.core.limits import check_name, check_topic
from resprout.edge.broker.owed import read_held
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, Publish, PublishRefused
from resprout.filters.predicate import is_plain, topic_matches
from resprout.stacks.shell import Step
from resprout_lab.blocks.retention import KeptItem, Retention
from resprout_lab.scribe.errands import Errands
from resprout_lab.scribe.messages import ChangeReplica, PublicationPlaced, PublishAt, ReplicaChanged, holder_of, name_of
from resprout_lab.scribe.wishes import DIRECTORY

WAIT_US: Final = 9_000_000
"""For so long a client waits for the leaders of its topics: longer than a leader takes to be replaced, and shorter than
clients wait for a broker."""
REPLICAS: Final = "$scribe/replicas"
"""Where operators publish AddReplica and RemoveReplica: `add TOPIC BROKER`, at that broker, or `remove TOPIC BROKER`.
The publication is safe when the command is decided."""
COMMANDS_MAX: Final = 100
"""Such commands of the clients of one broker that may be under way."""
LOOKS_MAX: Final = 3
"""Answers of one leader that know less than the client, which may be old, before the log is taken for another one."""


class _Published:
    __slots__ = ("copies", "is_refused", "item")

    def __init__(self, item: KeptItem, is_refused: bool) -> None:
        self.item = item
        self.is_refused = is_refused
        self.copies = 0
        """On so many brokers its place is known; 0 before it has one."""


class TopicPublishing:
    def __init__(self, me: str, step: Step, sessions: ClientSessions, kept: Retention, errands: Errands) -> None:
        self._me = me
        self._step = step
        self._sessions = sessions
        self._kept = kept
        self._errands = errands
        self._waiting: dict[tuple[str, str], deque[_Published]] = {}
        """By client and stream: what it was not told to be safe."""
        self._last: dict[str, dict[tuple[Origin, str], int]] = {}
        """By client: the last number of an origin on a topic that was published here."""
        self._followers: dict[tuple[Origin, str, int], int] = {}
        """By the last number of a publication without a place: the first number of the next one on its topic."""
        self._commands: dict[int, tuple[ChangeReplica, str, _Published]] = {}
        """Commands for topics that are under way, by number: and the client that gave each."""
        self._commanded = 0
        sessions.copies_of = lambda item: self._copies
        self._copies = 1

    def publish(self, session: ClientSession, message: Publish) -> None:
        bundle = message.bundle
        reason, change = _refusal(bundle), None
        if bundle.topic == REPLICAS and not reason:
            change = self._change_of(bundle)
            reason = change if isinstance(change, str) else ""
        if reason:
            refused = PublishRefused(bundle.stream, bundle.first, bundle.count, reason)
            self._step.out.append(Send(session.name, refused))
        published = _Published(KeptItem(bundle, 0, session.name, message.prompt), bool(reason))
        published.item.client = session
        self._kept.keep(published.item)
        self._waiting.setdefault((session.name, bundle.stream), deque()).append(published)
        if reason:
            self._tell(session.name, bundle.stream)
        elif isinstance(change, ChangeReplica):
            self._commands[change.number] = (change, session.name, published)
            self._errands.add(change.topic, ("replica", change.number), change)
        elif not self._errands.has(bundle.topic, _key(bundle.origin, bundle.first)):
            last, at = self._last.setdefault(session.name, {}), (bundle.origin, bundle.topic)
            previous = last.get(at, 0) if bundle.first > last.get(at, 0) else 0
            last[at] = bundle.last
            if previous:
                self._followers[bundle.origin, bundle.topic, previous] = bundle.first
            self._errands.add(bundle.topic, _key(bundle.origin, bundle.first), PublishAt(bundle, previous))

    def _change_of(self, bundle: Bundle) -> ChangeReplica | str:
        """Return the command that was published, or why it is refused."""
        verb, _, rest = unpack_payloads(bundle)[0].decode("utf-8", "replace").strip().partition(" ")
        topic, _, name = rest.strip().partition(" ")
        if bundle.count > 1 or verb not in ("add", "remove") or not name:
            return "a command is a publication of its own: `add TOPIC BROKER` or `remove TOPIC BROKER`"
        own = name_of(self._me)
        if verb == "add" and name != own:
            return f"this is {own}: publish the command at {name}, the broker that is to hold the topic"
        try:
            check_topic(topic)
            holder = self._me if name == own else holder_of(check_name(name), 0, "")
        except UsageError as error:
            return str(error)
        others = [change for change, _, _ in self._commands.values()]
        for change in others:
            if (change.topic, change.holder, change.is_added) == (topic, holder, verb == "add"):
                return change  # its client says it again
        if topic.startswith("$scribe/") or len(others) >= COMMANDS_MAX:
            return f"the holders of {topic!r} cannot be changed" if topic.startswith("$") else "too many commands wait"
        if any(change.topic == topic and name_of(change.holder) == name_of(holder) for change in others):
            return f"another command for {topic!r} and {name_of(holder)} is not decided yet"
        self._commanded += 1
        return ChangeReplica(topic, holder, verb == "add", self._commanded)

    def changed(self, message: ReplicaChanged) -> None:
        """The command of an operator is decided, or refused."""
        self._errands.done(message.topic, ("replica", message.number))
        _, client, published = self._commands.pop(message.number, (None, "", None))
        if published is None or client not in self._sessions.all:
            return
        bundle, published.copies = published.item.bundle, self._sessions.serving.faults_tolerated + 1
        published.is_refused = bool(message.refusal)
        if message.refusal:
            refused = PublishRefused(bundle.stream, bundle.first, bundle.count, message.refusal)
            self._step.out.append(Send(client, refused))
        self._tell(client, bundle.stream)

    def placed(self, message: PublicationPlaced) -> None:
        self.answered(message)
        for published in self._waiting.get((message.publisher, message.stream), ()):
            bundle = published.item.bundle
            if bundle.first == message.first and bundle.incarnation == message.incarnation:
                published.copies = message.copies
        self._tell(message.publisher, message.stream)

    def answered(self, message: PublicationPlaced) -> None:
        """The leader need not be told of it again, and the next publication of the client on the topic need not name
        it: the log that has it may end."""
        origin, topic = (message.publisher, message.stream, message.incarnation), message.topic
        errand = self._errands.done(topic, _key(origin, message.first))
        if isinstance(errand, PublishAt):
            number = errand.bundle.last
            follower = self._followers.pop((origin, topic, number), None)
            if follower is not None:
                self._errands.settle(topic, _key(origin, follower))
            last = self._last.get(message.publisher, {})
            if last.get((origin, topic)) == number:
                del last[origin, topic]

    def _tell(self, client: str, stream: str) -> None:
        """Receipts, as far as nothing is missing before."""
        waiting = self._waiting.get((client, stream), deque())
        while waiting and (waiting[0].copies or waiting[0].is_refused):
            published = waiting.popleft()
            self._kept.let_go(published.item)
            if not published.is_refused:
                self._copies = min(published.copies, self._sessions.serving.faults_tolerated + 1)
                self._sessions.show(published.item, self._step.out)  # to nobody: its receipt
        if not waiting:
            self._waiting.pop((client, stream), None)

    def left(self, name: str) -> None:
        """It is gone; what it published here goes on."""
        self._last.pop(name, None)
        for key in [key for key in self._waiting if key[0] == name]:
            for published in self._waiting.pop(key):
                self._kept.let_go(published.item)
        self._kept.forget(name)


def _key(origin: Origin, first: int) -> tuple[object, ...]:
    return ("publish", origin, first)


def _refusal(bundle: Bundle) -> str:
    if len(bundle.topics) > 1:
        return "the stack 'scribe' has no order over several topics: keys must be of the publication's own topic"
    if bundle.topic == DIRECTORY:
        return f"{DIRECTORY!r} is where brokers announce topics; nobody else publishes there"
    return ""


class _Return:
    __slots__ = ("checks", "is_refused", "looks", "places")

    def __init__(self, places: dict[str, int]) -> None:
        self.places = places
        self.checks: dict[str, int] = {}
        """Topics whose leaders have not answered yet, and how far the client has come on each."""
        self.looks = 0
        self.is_refused = False
        """Something that it missed is not kept."""


class ReturningClients:
    def __init__(self, read: Callable[[str], None]) -> None:
        """`read` asks how far a topic has come (`has_come`)."""
        self._read = read
        self._all: dict[str, _Return] = {}

    def door(self, session: ClientSession, attend: Attend, waited_us: int) -> bool:
        """Whether a client can be served by now."""
        if not attend.subscriptions:
            return True
        found = self._all.get(session.name)
        if found is None:
            found = self._all[session.name] = _begin(attend)
            for topic in found.checks if not found.is_refused else ():
                self._read(topic)
        found.is_refused = found.is_refused or (waited_us >= WAIT_US and bool(found.checks))
        return found.is_refused or not found.checks

    def take(self, client: str) -> dict[str, int] | None:
        """The client is served: how far it has come on each topic; None if it cannot go on from there."""
        found = self._all.pop(client, None)
        return found.places if found is not None and not found.is_refused else None

    def has_come(self, topic: str, position: int, kept_after: int) -> None:
        """The leader has everything between these."""
        is_read = False
        for one in self._all.values():
            after = one.checks.get(topic)
            if after is None or one.is_refused:
                continue
            if after < kept_after:
                one.is_refused = True
            elif after <= position:
                del one.checks[topic]
            elif one.looks < LOOKS_MAX:
                one.looks += 1
                is_read = True
            else:
                one.is_refused = True
        if is_read:
            self._read(topic)

    def left(self, client: str) -> None:
        self._all.pop(client, None)


def _begin(attend: Attend) -> _Return:
    """A filter with wildcards goes on with the topics that its client knew of; those that were announced since are read
    from their beginning (`TopicWishes`)."""
    places = {place.topic: place.position for place in attend.places}
    begun = _Return(places)
    for held in read_held(attend.subscriptions):
        for topic in _topics_of(held.predicate.filter, places):
            if topic in places:
                begun.checks[topic] = places[topic]
            else:
                begun.is_refused = True
    return begun


def _topics_of(filter: str, places: Iterable[str]) -> list[str]:
    if is_plain(filter):
        return [filter]
    return [DIRECTORY, *(topic for topic in places if topic != DIRECTORY and topic_matches(filter, topic))]
