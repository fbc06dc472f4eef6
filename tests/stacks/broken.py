"""Brokers that each break one promise and keep the rest: a judge that does not notice them is worth nothing.

Apart from its one fault every variant follows the protocol, so that what it does looks like a slip of the pen in the
default stack, not like noise.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

from resprout.core.bundle import Bundle, Origin, pick
from resprout.core.contract import Effect, Event, Send, SetTimer, Timer, TimerFired
from resprout.core.message_fields import Reached
from resprout.core.seen import Seen
from resprout.edge.broker.ports import Picks
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Delivery
from resprout.filters.index import MatchIndex
from resprout.order import log
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.log_holdback import LogHoldBack
from resprout.order.messages import Forward, Levels, Republished
from resprout.order.reports import Reports
from resprout.order.totals.pending import LockRecord
from resprout.order.totals.totals import Totals
from resprout.spread import asked
from resprout.spread.covers import Wish
from resprout.spread.interest import Interest
from resprout.stacks.resprout import RESPROUT, ResproutBroker, ResproutOptions, parts
from resprout.stacks.resprout.forwarding import Forwarding, stable_entry
from resprout.stacks.resprout.messages import Item, Stub
from resprout.stacks.resprout.repair import finish
from resprout.stacks.resprout.repair.pool import Pool
from resprout.stacks.routes import Routes
from resprout.stacks.stack import BrokerSeat, Stack

Make = Callable[[BrokerSeat, ResproutOptions, random.Random], ResproutBroker]


def stack_of(make: Make) -> Stack[ResproutOptions]:
    """The default stack with other brokers."""
    return Stack("broken", RESPROUT.guarantees, ResproutOptions, RESPROUT.messages, make)


def with_parts(*parts: tuple[Any, str, Any]) -> Make:
    """The default broker, put together with other parts: (module, name of the part, what is taken instead)."""

    def make(seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> ResproutBroker:
        with ExitStack() as patches:
            for module, name, part in parts:
                patches.enter_context(mock.patch.object(module, name, part))
            return ResproutBroker(seat, options, rng)

    return make


# -- without any crash -------------------------------------------------------------------------------------------------


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
        if isinstance(event, TimerFired) and not event.timer.background:
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


class _Sieve(Forwarding):
    _count = 0

    def _send_on(self, link: Link, entry: Entry, forward: Forward | Republished) -> bool:
        self._count += 1
        went_on = super()._send_on(link, entry, forward)
        if self._count % 10 == 0:
            self._life.out.pop()
        return went_on


sieve = with_parts((parts, "Forwarding", _Sieve))
"""Logs and counts every tenth bundle as sent, and does not send it."""


class _Repeater(Forwarding):
    def _send_on(self, link: Link, entry: Entry, forward: Forward | Republished) -> bool:
        went_on = super()._send_on(link, entry, forward)
        link.sent.add(stable_entry(forward.bundle, link, forward.hops, self._life.faults))
        self._life.out.append(Send(link.name, forward))
        return went_on


repeater = with_parts((parts, "Forwarding", _Repeater))
"""Sends every bundle twice. Harmless: whoever gets it can tell."""


class _RemembersNothing(Seen):
    def is_new(self, bundle: Bundle) -> bool:
        return True


parrot = with_parts((parts, "Forwarding", _Repeater), (parts, "Seen", _RemembersNothing))
"""Sends every bundle twice and cannot tell, either."""


class Flatterer(ResproutBroker):
    """Reports bundles as delivered behind it as soon as they are there."""

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        return [_flattered(effect) for effect in super().step(event, now_us)]


def _flattered(effect: Effect) -> Effect:
    if isinstance(effect, Send) and isinstance(effect.message, Levels):
        said = effect.message
        return Send(effect.peer, Levels(said.have, said.firm, said.back_have, said.back_firm, said.have[0]))
    return effect


class _ConfirmsAtOnce(Interest):
    def _await(self, wish: Wish, name: str) -> None:
        pass


promiser = with_parts((parts, "Interest", _ConfirmsAtOnce))
"""Confirms every subscription before anybody else has heard of it."""


class _Generous(Routes):
    def find(self, bundle: Bundle) -> tuple[tuple[Link, ...], tuple[ClientSession, ...], Picks | None]:
        links, guests, _ = super().find(bundle)
        return links, guests, None


giver = with_parts((parts, "Routes", _Generous))
"""Gives whole bundles to those who asked for some messages of them."""


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


class _ClosesNothing(Totals):
    def _advance(self, record: LockRecord) -> None:
        if record.active and record.stamp is None:
            self.deliver_with_stamp(record, self.clock.now + 1)


hasty = with_parts((parts, "Totals", _ClosesNothing))
"""Delivers a total as soon as it has its place, without waiting until everybody's side is closed."""


class _Mumbles(Reports):
    __slots__ = ()

    def arrived(self, entry: Entry, source: Link) -> None:
        self.taken_soon = self.due = True


mumbler = with_parts((parts, "Reports", _Mumbles))
"""Says that it has what may not be safe yet only when it has something else to say as well."""


class _Elbows(Log):
    __slots__ = ()

    def let_pass(self, entry: Entry, source: Link) -> None:
        if self.is_safe(entry):
            self.held_back.let_pass(entry, -1)


elbows = with_parts((parts, "Log", _Elbows))
"""Lets whatever is safe pass what is not, whoever has it."""


class _NoWalls(LogHoldBack):
    __slots__ = ()

    def put_wall(self) -> None:
        pass


climber = with_parts((log, "LogHoldBack", _NoWalls))
"""Shows what comes behind a total before it."""


# -- noticed when a broker dies ----------------------------------------------------------------------------------------


class _EmptyPool(Pool):
    def ordered(self) -> list[Item | Stub]:
        return []


class Rewirer(ResproutBroker):
    """Makes the links of a repair and hands over nothing of what was on its way."""

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        with mock.patch.object(finish, "Pool", _EmptyPool):
            return super().step(event, now_us)


class _TrustsItself(Log):
    __slots__ = ()

    def is_safe(self, entry: Entry) -> bool:
        return True


blurter = with_parts((parts, "Log", _TrustsItself))
"""Shows everything, and calls it safe, before anybody else has it."""


class Braggart(ResproutBroker):
    """Tells its neighbours that its readers have taken what it has only just received."""

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        return [self._boasted(effect) for effect in super().step(event, now_us)]

    @staticmethod
    def _boasted(effect: Effect) -> Effect:
        if isinstance(effect, Send) and isinstance(effect.message, Levels):
            said = effect.message
            firm = (said.have[0],) * len(said.firm)
            return Send(effect.peer, Levels(said.have, firm, said.back_have, said.back_firm, said.done))
        return effect


def _is_owed_always(bundle: Bundle, index: MatchIndex[str], bases: dict[str, dict[Origin, Reached]]) -> bool:
    return any(index.match_any(bundle.topics, {}))


class Digger(ResproutBroker):
    """In a repair it brings up again what had passed before its clients had subscribed."""

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        with mock.patch.object(asked, "_is_owed", _is_owed_always):
            return super().step(event, now_us)
