"""Questions and news that run through the whole tree, with an answer when every broker has heard.

`Echo` is the echo algorithm (propagation of information with feedback) at one broker. A broker asks its neighbours,
each of them asks those behind it, and answers when all of them have answered. So one answer speaks for every broker
behind a link, and the broker that began the question hears when the whole tree has answered. `Echo` keeps what one
broker waits for. It joins the answers of each question, stops waiting for neighbours that are dead, and calls `done`
when no answer is outstanding. Four protocols use it: the two below, the book of durable subscriptions, and the search
for publications that are not read (`stacks.resprout.unsettled`). Each sends its own messages and bounds how many
questions others may have under way here.

`Waves`: every broker within some hops records something, and the broker that began the wave hears when all have. A wave
runs over open links only. A neighbour that dies is no longer waited for (`unwait`): what is behind it hears the news
with the repair. Each broker numbers its own waves, so an answer can only end the wave that it belongs to.

`Census` asks the whole tree who bears a name: a newcomer must not take the name of a broker that lives. The answers
come back joined, each broker speaking for itself, for newcomers that ask it for a place, and for what it remembers of
the dead. Silence is no answer: a broker that is not heard is waited for until it speaks or is declared dead. Where a
link is in repair, or breaks on the way, the answer is not `complete`: nobody knows who stands behind it, and the
question has to be asked again. The census does not decide who may have the name.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.message_fields import NUMBER_MAX
from resprout.overlay import lineage
from resprout.overlay.messages import Expelled, Namesake, Place, Registration, Seek, Sought, Tell, Told, check_lives
from resprout.overlay.view import MembershipView

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

NAMES_MAX: Final = 64
"""In one question."""
NAMESAKES_MAX: Final = 256
"""In one answer: more than there can be honest ones."""
SEARCHES_MAX: Final = 4_096
"""Questions that run through one broker at a time."""

WAVES_MAX: Final = 16_384
"""Waves that run through one broker at a time on behalf of others."""

PLACES_TOLD_MAX: Final = 256
"""In one message."""

Payload = Place | tuple[Place, ...] | Registration | None
"""None: nothing to record; the answer alone is wanted."""


def _ignore(answer: Any) -> None:
    """Join nothing: that everybody has answered says it all."""


class _Question(Generic[Answer]):
    __slots__ = ("done", "join", "waiting")

    def __init__(
        self, waiting: dict[str, None], join: Callable[[Answer | None], None], done: Callable[[], None]
    ) -> None:
        self.waiting = waiting
        """Neighbours that have not answered."""
        self.join = join
        self.done = done


class Echo(Generic[Key, Answer]):
    def __init__(self) -> None:
        self._running: dict[Key, _Question[Answer]] = {}
        self.asked = 0
        """Questions so far that some neighbour was asked."""

    def __len__(self) -> int:
        """Return how many questions wait for answers."""
        return len(self._running)

    def ask(
        self,
        key: Key,
        names: Iterable[str],
        send: Callable[[str], object],
        done: Callable[[], None],
        join: Callable[[Answer | None], None] = _ignore,
    ) -> None:
        """Send the question to each of these neighbours. `join` is called with each answer, and with None for a
        neighbour that dies instead; then `done`, at once if there is nobody to ask. A question with the same key is
        replaced."""
        waiting = dict.fromkeys(names)
        if not waiting:
            self._running.pop(key, None)
            done()
            return
        self.asked += 1
        self._running[key] = _Question(waiting, join, done)
        for name in list(waiting):
            send(name)

    def answered(self, key: Key, name: str, answer: Answer) -> None:
        """Take the answer of a neighbour; without effect unless it is waited for. What `join` raises leaves the
        question as it was."""
        question = self._running.get(key)
        if question is not None and name in question.waiting:
            question.join(answer)
            self._settle(key, question, name)

    def unwait(self, name: str) -> None:
        """Stop waiting for a neighbour that is dead."""
        for key, question in list(self._running.items()):
            if name in question.waiting:
                question.join(None)
                self._settle(key, question, name)

    def _settle(self, key: Key, question: _Question[Answer], name: str) -> None:
        del question.waiting[name]
        if not question.waiting and self._running.get(key) is question:
            del self._running[key]
            question.done()


class CensusFindings(msgspec.Struct):
    """What the tree knows about some names."""

    namesakes: list[Namesake]
    latest: dict[str, int]
    """By name: the life that asks must be above this one."""
    complete: bool = True

    def join(self, answer: Sought | None) -> None:
        """Add what is known behind a neighbour. None: it is dead, and nobody knows who is behind it. Raise PeerError
        for an answer to another question."""
        if answer is None:
            self.complete = False
            return
        if len(answer.latest) != len(self.latest) or len(answer.namesakes) > NAMESAKES_MAX:
            raise PeerError("an answer that does not fit the names that were sought")
        self.namesakes += [one for one in answer.namesakes if one not in self.namesakes]
        del self.namesakes[NAMESAKES_MAX:]
        for name, number in zip(self.latest, answer.latest, strict=True):
            self.latest[name] = max(self.latest[name], min(number, NUMBER_MAX))
        self.complete = self.complete and answer.complete


class Census:
    def __init__(
        self,
        view: MembershipView,
        post: Callable[[str, ProtocolMessage], None],
        claims: Callable[[str], list[Namesake]] = lambda name: [],
    ) -> None:
        """`claims` returns the newcomers that ask this broker for a place under a name."""
        self._view = view
        self._post = post
        self._claims = claims
        self._echo: Echo[int, Sought] = Echo()
        self.handlers: dict[type, Callable[[str, Any, int], None]] = {Seek: self._on_seek, Sought: self._on_sought}

    def ask(self, names: tuple[str, ...], done: Callable[[CensusFindings], None]) -> None:
        """`done` may be called at once."""
        self._run(names, None, done)

    def unwait(self, name: str) -> None:
        """Stop waiting for a neighbour that is dead."""
        self._echo.unwait(name)

    def _run(self, names: tuple[str, ...], source: str | None, done: Callable[[CensusFindings], None]) -> None:
        here = self._view
        findings = CensusFindings([], {name: self._latest(name) for name in names}, all(here.neighbours.values()))
        for name in names:
            findings.namesakes += self._claims(name)
            if name == here.name:
                findings.namesakes.append(Namesake(name, here.incarnation, here.address, here.parent or "", True))
        waiting = [name for name, is_open in here.neighbours.items() if is_open and name != source]
        number = self._echo.asked + 1
        self._echo.ask(
            number,
            waiting,
            lambda name: self._post(name, Seek(number, names)),
            lambda: done(findings),
            findings.join,
        )

    def _latest(self, name: str) -> int:
        """Dead lives are over, and so is everything below a life that was met."""
        here = self._view
        dead = max(here.tombstones.get(name, 0), here.replaced.get(name, 0))
        place = here.places.get(name)
        met = max(here.sessions.get(name, 0), place.incarnation if place is not None else 0)
        return min(max(dead, met - 1), NUMBER_MAX)

    def _on_seek(self, peer: str, message: Seek, now_us: int) -> None:
        if len(message.names) > NAMES_MAX or len(set(message.names)) != len(message.names):
            raise PeerError(f"{len(message.names)} names sought at once; at most {NAMES_MAX}, and each of them once")

        def answer(findings: CensusFindings) -> None:
            if self._view.neighbours.get(peer):
                latest = tuple(findings.latest.values())
                self._post(peer, Sought(message.number, tuple(findings.namesakes), latest, findings.complete))

        if len(self._echo) >= SEARCHES_MAX:  # of many brokers, perhaps: whoever passes one on is not to blame
            answer(CensusFindings([], {name: self._latest(name) for name in message.names}, False))
        else:
            self._run(message.names, peer, answer)

    def _on_sought(self, peer: str, message: Sought, now_us: int) -> None:
        self._echo.answered(message.number, peer, message)


class Waves:
    def __init__(
        self,
        view: MembershipView,
        post: Callable[[str, ProtocolMessage], None],
        outcomes: deque[Outcome],
        judge: Callable[[str, Registration, int], Registration | None] = lambda peer, registration, now_us: (
            registration
        ),
        claims: Callable[[str], list[Namesake]] = lambda name: [],
    ) -> None:
        """`judge` returns what is believed when a neighbour says that these are dead, and None when it may not say so;
        `claims` as in `Census`."""
        self._view = view
        self._post = post
        self._outcomes = outcomes
        self._echo: Echo[int, Told] = Echo()
        self._judge = judge
        self.census: Final = Census(view, post, claims)
        """Waves that bring answers back."""
        self.handlers: dict[type, Callable[[str, Any, int], None]] = {
            Tell: self._on_tell, Told: self._on_told, **self.census.handlers,
        }  # fmt: skip
        """By message: (peer, message, now_us). Only for messages from neighbours whose link is open."""

    def start(self, payload: Payload, ttl: int, done: Callable[[], None], toward: Iterable[str] | None = None) -> None:
        """Tell everybody within `ttl` hops (`toward`: only behind these neighbours); `done` may be called at once."""
        names = self._view.neighbours if toward is None else toward
        self._run(payload, ttl, names, done)

    def share(self, behind: Collection[str]) -> None:
        """A repair brings brokers nearer to each other. Tell the neighbours on our own side what stands `behind` the
        others and is now within their reach; or views would shrink with every repair."""
        here = self._view
        onward = [name for name in here.neighbours if name not in behind]
        rings: dict[int, list[Place]] = {}
        for name, (distance, way) in lineage.branches(here, here.reach - 1).items():
            place = here.places.get(name)
            if way in behind and place is not None and place.version > 0:
                rings.setdefault(distance, []).append(place)
        for distance, ring in rings.items():
            for start in range(0, len(ring), PLACES_TOLD_MAX):
                part = tuple(ring[start : start + PLACES_TOLD_MAX])
                self._run(part, here.reach - distance, onward, lambda: None)

    def exchange(self, centre: str) -> None:
        """As a member of a finished repair, once the own place is told: both sides of the new link to its centre tell
        each other what the other may have missed while there was no link."""
        self.share((centre,))
        self.share([name for name in self._view.neighbours if name != centre])

    def unwait(self, name: str) -> None:
        """Stop waiting for a neighbour that is dead."""
        self.census.unwait(name)
        self._echo.unwait(name)

    def _run(self, payload: Payload, ttl: int, names: Iterable[str], done: Callable[[], None]) -> None:
        open_links = self._view.neighbours
        waiting = [name for name in names if open_links.get(name)] if ttl > 0 else []
        places = (payload,) if isinstance(payload, Place) else payload if isinstance(payload, tuple) else ()
        registration = payload if isinstance(payload, Registration) else None
        number = self._echo.asked + 1
        self._echo.ask(
            number, waiting, lambda name: self._post(name, Tell(number, ttl - 1, places, registration)), done
        )

    def _on_tell(self, peer: str, message: Tell, now_us: int) -> None:
        if len(self._echo) >= WAVES_MAX:
            raise PeerError(f"more than {WAVES_MAX} waves at a time")
        spared = {peer}
        if len(message.places) > PLACES_TOLD_MAX:
            raise PeerError(f"{len(message.places)} places at once; at most {PLACES_TOLD_MAX}")
        places = tuple([place for place in message.places if self._view.is_credible(place)])
        self._view.learn(*places)
        if len(places) == 1:
            spared.add(places[0].name)
        registration = message.registration
        if registration is not None:
            check_lives(registration.dead)
            registration = self._judge(peer, registration, now_us)
            if registration is None:
                raise PeerError(f"{peer} calls brokers dead that are not its to judge")
            spared.update(life.name for life in registration.dead)
            if not self._view.record(registration):
                self._outcomes.append(Expelled(f"{peer} says that this broker was declared dead"))
                return

        def answer() -> None:
            if self._view.neighbours.get(peer):
                self._post(peer, Told(message.number))

        onward = [name for name in self._view.neighbours if name not in spared]
        ttl = min(message.ttl, self._view.reach)
        self._run(registration or places, ttl, onward, answer)

    def _on_told(self, peer: str, message: Told, now_us: int) -> None:
        self._echo.answered(message.number, peer, message)
