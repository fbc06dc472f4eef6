"""A census: ask the whole tree who bears a name (`echo`). A newcomer must not take the name of a broker that lives.

The question runs along open links to everybody and the answers come back joined, each broker speaking for itself, for
newcomers that ask it for a place, and for what it remembers of the dead. Silence is no answer: a broker that is not
heard is waited for until it speaks or is declared dead. Where a link is in repair, or breaks on the way, the answer is
not `complete`: nobody knows who stands behind it, and the question has to be asked again.

What this file will not do: decide who may have the name.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.message_fields import NUMBER_MAX
from resprout.overlay.echo import Echo
from resprout.overlay.messages import Namesake, Seek, Sought
from resprout.overlay.view import MembershipView

NAMES_MAX: Final = 64
"""In one question."""
NAMESAKES_MAX: Final = 256
"""In one answer: more than there can be honest ones."""
SEARCHES_MAX: Final = 4_096
"""Questions that run through one broker at a time."""


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
