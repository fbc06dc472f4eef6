"""Waves: everybody within some hops records something, and the broker that began it hears when all have (`echo`).

A wave runs over open links only. A neighbour that dies is no longer waited for (`unwait`): what is behind it hears the
news with the repair. Each broker numbers its own waves, so an answer can only end the wave that it belongs to.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.core.errors import PeerError
from resprout.overlay import lineage
from resprout.overlay.census import Census
from resprout.overlay.echo import Echo
from resprout.overlay.messages import Namesake, Tell, Told
from resprout.overlay.outcomes import Expelled
from resprout.overlay.places import Place, Registration, check_lives
from resprout.overlay.view import MembershipView

WAVES_MAX: Final = 16_384
"""Waves that run through one broker at a time on behalf of others."""

PLACES_TOLD_MAX: Final = 256
"""In one message."""

Payload = Place | tuple[Place, ...] | Registration | None
"""None: nothing to record; the answer alone is wanted."""


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
