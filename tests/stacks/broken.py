"""Brokers that each break one promise and keep the rest: a judge that does not notice them is worth nothing.

Apart from its one fault every variant follows the protocol, so that what it does looks like a slip of the pen in
`stacks.resprout`, not like noise.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from resprout.core.bundle import Bundle, pick
from resprout.core.contract import Effect, Event, Send, SetTimer, Timer, TimerFired
from resprout.edge.guest import Guest
from resprout.edge.messages import Delivery
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.messages import Forward, Levels
from resprout.order.seen import Seen
from resprout.spread.interest import Interest
from resprout.spread.needs import Wish
from resprout.stacks import resprout
from resprout.stacks.resprout import RESPROUT, ResproutBroker, ResproutOptions
from resprout.stacks.routes import Picks, Routes
from resprout.stacks.stack import BrokerSeat, Stack

Make = Callable[[BrokerSeat, ResproutOptions, random.Random], ResproutBroker]


def stack_of(make: Make) -> Stack[ResproutOptions]:
    """The default stack with other brokers."""
    return Stack("broken", RESPROUT.guarantees, ResproutOptions, RESPROUT.messages, make)


class Juggler(ResproutBroker):
    """Gives its clients every third delivery after the one that follows it."""

    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        super().__init__(seat, options, rng)
        self._count = 0
        self._aside: dict[str, Effect] = {}

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        out: list[Effect] = []
        for effect in super().step(event, now_us):
            if not isinstance(effect, Send) or not isinstance(effect.message, Delivery):
                out.append(effect)
                continue
            self._count += 1
            if self._count % 3 == 0 and effect.peer not in self._aside:
                self._aside[effect.peer] = effect
            else:
                out.append(effect)
                out.extend(self._pick_up(effect.peer))
        if isinstance(event, TimerFired):
            out.extend(effect for peer in list(self._aside) for effect in self._pick_up(peer))
        return out

    def _pick_up(self, peer: str) -> list[Effect]:
        return [self._aside.pop(peer)] if peer in self._aside else []


class PassOn(Timer, frozen=True):
    """When to send what was put off."""


class Dawdler(ResproutBroker):
    """Passes the bundles of `c0` on to `b4` a little later, in their order; those of others overtake them."""

    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        super().__init__(seat, options, rng)
        self._later: list[Effect] = []

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        out: list[Effect] = []
        for effect in super().step(event, now_us):
            message = effect.message if isinstance(effect, Send) and effect.peer == "b4" else None
            if isinstance(message, Forward) and message.bundle.publisher == "c0":
                self._later.append(effect)
                out.append(SetTimer(PassOn(), now_us + 30_000))
            else:
                out.append(effect)
        if isinstance(event, TimerFired) and isinstance(event.timer, PassOn):
            out += self._later
            self._later = []
        return out


class Sieve(ResproutBroker):
    """Logs and counts every tenth bundle as sent, and does not send it."""

    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        super().__init__(seat, options, rng)
        self._count = 0

    def _send_on(self, link: Link, entry: Entry, forward: Forward, out: list[Effect]) -> bool:
        self._count += 1
        return super()._send_on(link, entry, forward, [] if self._count % 10 == 0 else out)


class Repeater(ResproutBroker):
    """Sends every bundle twice. Harmless: whoever gets it can tell."""

    def _send_on(self, link: Link, entry: Entry, forward: Forward, out: list[Effect]) -> bool:
        went_on = super()._send_on(link, entry, forward, out)
        link.sent.add(resprout._nothing_more_to_do(forward.bundle, link, forward.hops, self._faults))
        out.append(Send(link.name, forward))
        return went_on


class _RemembersNothing(Seen):
    def is_new(self, bundle: Bundle) -> bool:
        return True


class Parrot(Repeater):
    """Sends every bundle twice and cannot tell, either."""

    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        super().__init__(seat, options, rng)
        self._seen = _RemembersNothing()


class Flatterer(ResproutBroker):
    """Reports bundles as delivered behind it as soon as they are there."""

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        return [_flattered(effect) for effect in super().step(event, now_us)]


def _flattered(effect: Effect) -> Effect:
    if isinstance(effect, Send) and isinstance(effect.message, Levels):
        return Send(effect.peer, Levels(effect.message.taken, effect.message.spread, effect.message.taken[0]))
    return effect


class _ConfirmsAtOnce(Interest):
    def _await(self, wish: Wish, name: str) -> None:
        pass


def promiser(seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> ResproutBroker:
    """Confirms every subscription before anybody else has heard of it."""
    with mock.patch.object(resprout, "Interest", _ConfirmsAtOnce):
        return ResproutBroker(seat, options, rng)


class _Generous(Routes):
    def find(self, bundle: Bundle) -> tuple[tuple[Link, ...], tuple[Guest, ...], Picks | None]:
        links, guests, _ = super().find(bundle)
        return links, guests, None


def giver(seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> ResproutBroker:
    """Gives whole bundles to those who asked for some messages of them."""
    with mock.patch.object(resprout, "Routes", _Generous):
        return ResproutBroker(seat, options, rng)


class Forger(ResproutBroker):
    """Gives its clients now and then a message that nobody has published."""

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        return [self._forged(effect) for effect in super().step(event, now_us)]

    @staticmethod
    def _forged(effect: Any) -> Effect:
        if isinstance(effect, Send) and isinstance(effect.message, Delivery):
            given = effect.message
            if given.bundle.first % 10 == 0 and given.offsets is None:
                one = pick(given.bundle, [0])
                forged = Delivery(one, given.hops, given.metadata_bytes, (1_000_000,))
                return Send(effect.peer, forged)
        assert isinstance(effect, Effect)
        return effect
