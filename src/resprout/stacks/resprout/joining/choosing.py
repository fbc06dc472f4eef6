"""How a broker that is offered several places finds the one to take: by how far away it is, and by interest.

It calls all of them and measures a round trip to each that answers; setting up a session is not counted, because some
stand already. Whoever is about as near as the nearest counts as near. Among the near ones, interest decides: the place
where the least of what is wanted is `missing`. Then the shorter trip, then the name.

So interest never sends a broker far away, and a few milliseconds never outweigh traffic that every hop has to carry.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.core.contract import CancelTimer, Locate, SetTimer, Timer
from resprout.overlay.messages import Probe
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import OFFERED_MAX, Offer
from resprout.stacks.shell.peers import Peers

CALL: Final = 1 << 52
"""The number of a probe that only sees to it that there is a session; rounds of the overlay count from 1."""
MEASURE: Final = CALL + 1
PATIENCE_US: Final = 5_000_000
"""How long a first answer is waited for."""
NEAR_US: Final = 5_000
"""Round trips that differ by no more are alike, whatever their ratio: what a busy process takes to answer."""
SET_UP_TRIPS: Final = 4
"""To connect, to greet, to be called, to be measured."""


class ChooseParent(Timer, frozen=True):
    """When to take the best of those that have answered."""


class Candidate(msgspec.Struct, frozen=True):
    name: str
    trip_us: int
    missing: int


def near_us(nearest_us: int) -> int:
    """Up to here a round trip counts as near."""
    return nearest_us * 3 // 2 + NEAR_US


def choose(candidates: Iterable[Candidate]) -> str | None:
    """The parent to take; None when nobody has answered."""
    answered = list(candidates)
    if not answered:
        return None
    most_us = near_us(min(candidate.trip_us for candidate in answered))
    near = [candidate for candidate in answered if candidate.trip_us <= most_us]
    return min(near, key=lambda candidate: (candidate.missing, candidate.trip_us, candidate.name)).name


class ChosenParent(msgspec.Struct, frozen=True):
    """What came of a search."""

    name: str | None
    """None when nobody answered."""


class ParentSearch:
    """One search. It is over when a call returns what was `ChosenParent`."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        offers: Iterable[Offer],
    ) -> None:
        self._life = life
        self._peers = peers
        self._missing = {offer.name: offer.missing for offer in offers}
        self._awaited = dict.fromkeys(self._missing)
        self._asked_us: dict[str, int] = {}
        """When a round trip began."""
        self._trips: dict[str, int] = {}
        self._begun_us = life.now_us

    def begin(self) -> ChosenParent | None:
        life = self._life
        life.out.append(SetTimer(ChooseParent(), life.now_us + PATIENCE_US))
        for name in self._missing:
            if self._peers.is_clear(name):
                self._measure(name)
            else:
                self._peers.post(name, Probe(CALL))
        return self._check()

    def probed(self, name: str, number: int) -> ChosenParent | None:
        """An answer to a probe. Whoever answers what it was not asked is not believed."""
        life = self._life
        if name not in self._awaited:
            return None
        if number == CALL and name not in self._asked_us:
            self._measure(name)
        elif number == MEASURE and name in self._asked_us:
            del self._awaited[name]
            self._trips[name] = life.now_us - self._asked_us[name]
            nearest_us = min(self._trips.values())
            life.out.append(SetTimer(ChooseParent(), self._begun_us + SET_UP_TRIPS * near_us(nearest_us)))
            return self._check()
        return None

    def lost(self, name: str) -> ChosenParent | None:
        """It is not there."""
        return self._check() if self._awaited.pop(name, self) is None else None

    def end(self) -> ChosenParent:
        """Choose among those that have answered."""
        self._life.out.append(CancelTimer(ChooseParent()))
        self._awaited = {}
        return ChosenParent(choose([Candidate(name, trip, self._missing[name]) for name, trip in self._trips.items()]))

    def _measure(self, name: str) -> None:
        self._asked_us[name] = self._life.now_us
        self._peers.post(name, Probe(MEASURE))

    def _check(self) -> ChosenParent | None:
        return self.end() if not self._awaited else None


def locate(life: BrokerLife, offers: Iterable[Offer]) -> list[Offer]:
    """Those that can be called, and where they listen."""
    usable = [offer for offer in list(offers)[:OFFERED_MAX] if offer.name != life.seat.name]
    life.out.extend([Locate(offer.name, offer.address) for offer in usable if offer.address])
    return usable
