"""What clients of this broker published, until it has a place.

Receipts of a client come in the order of its numbers, over all topics, and its topics have leaders of their own: what
has a place early waits here until all before it have theirs. Whoever returns with a publication that is under way, or
has its place, is told alike.
"""

from collections import deque

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import Send
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Publish, PublishRefused
from resprout.stacks.shell.step import Step
from resprout_lab.blocks.item import KeptItem
from resprout_lab.blocks.retention import Retention
from resprout_lab.scribe.errands import Errands
from resprout_lab.scribe.messages import PublicationPlaced, PublishAt
from resprout_lab.scribe.wishes import DIRECTORY


class _Published:
    __slots__ = ("copies", "is_refused", "item")

    def __init__(self, item: KeptItem, is_refused: bool) -> None:
        self.item = item
        self.is_refused = is_refused
        self.copies = 0
        """On so many brokers its place is known; 0 before it has one."""


class TopicPublishing:
    def __init__(self, step: Step, sessions: ClientSessions, kept: Retention, errands: Errands) -> None:
        self._step = step
        self._sessions = sessions
        self._kept = kept
        self._errands = errands
        self._waiting: dict[tuple[str, str], deque[_Published]] = {}
        """By client and stream: what it was not told to be safe."""
        self._last: dict[str, dict[tuple[Origin, str], int]] = {}
        """By client: the last number of an origin on a topic that was published here."""
        sessions.copies_of = lambda item: self._copies
        self._copies = 1

    def publish(self, session: ClientSession, message: Publish) -> None:
        bundle = message.bundle
        reason = _refusal(bundle)
        if reason:
            refused = PublishRefused(bundle.stream, bundle.first, bundle.count, reason)
            self._step.out.append(Send(session.name, refused))
        published = _Published(KeptItem(bundle, 0, session.name, message.prompt), bool(reason))
        published.item.client = session
        self._kept.keep(published.item)
        self._waiting.setdefault((session.name, bundle.stream), deque()).append(published)
        if reason:
            self._tell(session.name, bundle.stream)
        elif not self._errands.has(bundle.topic, _key(bundle.origin, bundle.first)):
            last, at = self._last.setdefault(session.name, {}), (bundle.origin, bundle.topic)
            previous = last.get(at, 0) if bundle.first > last.get(at, 0) else 0
            last[at] = bundle.last
            self._errands.add(bundle.topic, _key(bundle.origin, bundle.first), PublishAt(bundle, previous))

    def placed(self, message: PublicationPlaced) -> None:
        self.answered(message)
        for published in self._waiting.get((message.publisher, message.stream), ()):
            bundle = published.item.bundle
            if bundle.first == message.first and bundle.incarnation == message.incarnation:
                published.copies = message.copies
        self._tell(message.publisher, message.stream)

    def answered(self, message: PublicationPlaced) -> None:
        """The leader need not be told of it again."""
        origin = (message.publisher, message.stream, message.incarnation)
        self._errands.done(message.topic, _key(origin, message.first))

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
