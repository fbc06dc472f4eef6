"""What this broker knows of all durable subscriptions of the network: where each lives, and how far it has come.

A state is told to everybody through the tree, and whoever says it hears when everybody knows (`DurableHeard`): each
broker answers when all behind it have answered. A neighbour that dies is not waited for; what is behind it hears with
the repair, since new links begin with the books of both sides. Of two states of one subscription the later holds. How
far it has come only rises, so it is told without an answer.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from resprout.core.errors import PeerError, UsageError
from resprout.core.limits import check_name
from resprout.core.message_fields import Marks, in_parts
from resprout.edge.broker.known_ids import check_ids
from resprout.edge.durable_messages import NO_DROPS, Drops, IdBatch, IdBatches, Spans, Tries
from resprout.filters.predicate import parse_predicate
from resprout.order.link import Link
from resprout.overlay.waves import Echo
from resprout.spread.messages import Outbound
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.durable_state import (
    STATE_MARKS_MAX,
    DurableDone,
    DurableHeard,
    DurableIds,
    DurableKnown,
    DurableProgress,
    DurableState,
    check_progress,
)
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.spilling import Spilling

SUBSCRIPTIONS_MAX: Final = 100_000
"""In the whole network, those that are over and remembered included. A home begins no more (`is_full`)."""
KNOWN_MAX: Final = 4 * SUBSCRIPTIONS_MAX
"""What one broker remembers: several homes may begin some at the same moment."""
ENDED_PER_OWNER_MAX: Final = 10_000
"""Ended subscriptions of one identity that are remembered; of more, its oldest are forgotten. One that begins and ends
many uses up no room of others."""

TERM_LEAP_MAX: Final = 1 << 20
"""So many brokers may have held a subscription since this one heard of it last."""

FORGET_US: Final = 10_000_000
"""How often old ids are forgotten."""

_Wave = tuple[str, int, int]
"""(subscription, term, edition)."""


class DurableBook:
    def __init__(
        self,
        life: BrokerLife,
        links: dict[str, Link],
        outbound: Outbound,
        disk: DiskLog | None,
        spilling: Spilling,
        changed: Callable[[DurableState], None],
        heard_of: Callable[[DurableState], None],
        defends: Callable[[DurableState], bool],
    ) -> None:
        """`changed` is told of each state that another broker has said, `heard_of` when every broker knows a state that
        this one has said. `defends` tells whether this broker holds the subscription, and a state that says otherwise
        cannot be true."""
        self._changed = changed
        self._defends = defends
        self._heard_of = heard_of
        self._life = life
        self._links = links
        self._outbound = outbound
        self._disk = disk
        self._spilling = spilling
        self.states: dict[str, DurableState] = {}
        """By name; `done`, `spans` and `drops` of them are in `_done`."""
        self._done: dict[str, DurableProgress] = {}
        self._with_ids: dict[str, None] = {}
        """Subscriptions that were given messages with ids lately."""
        self._forgot_us = 0
        """When old ones were forgotten last."""
        self._ended: dict[str, None] = {}
        """Names of those that are over, the one that was ended longest ago first."""
        self._ended_of: dict[str, dict[str, None]] = {}
        """The same by owner; those without an owner are not in it."""
        self._echo: Echo[_Wave, DurableHeard] = Echo()
        """States that are on their way through the tree."""
        self._is_over_full = False
        self.passed_over = 0
        """States that others told of and that are not remembered: there are too many, or they cannot be true."""

    def is_full(self) -> bool:
        """Whether there are so many that no more may begin."""
        return len(self.states) >= SUBSCRIPTIONS_MAX and not self._ended

    def done_of(self, subscription: str) -> tuple[Marks, Spans]:
        """The latest, where there are too many."""
        progress = self._done.get(subscription)
        return (progress.marks()[-STATE_MARKS_MAX:], progress.spans()) if progress is not None else ((), ())

    def drops_of(self, subscription: str) -> Drops:
        progress = self._done.get(subscription)
        return progress.drops if progress is not None else NO_DROPS

    def tries_of(self, subscription: str) -> tuple[Tries, ...]:
        progress = self._done.get(subscription)
        return progress.tries.all() if progress is not None else ()

    def whole(self, state: DurableState) -> DurableState:
        marks, spans = self.done_of(state.subscription)
        drops, tries = self.drops_of(state.subscription), self.tries_of(state.subscription)
        return msgspec.structs.replace(state, done=marks, spans=spans, drops=drops, tries=tries)

    def whole_states(self) -> list[DurableState]:
        return [self.whole(state) for state in self.states.values()]

    # -- said here -----------------------------------------------------------------------------------------------------

    def say(self, state: DurableState) -> None:
        """This broker holds it, or has ended it. `heard_of` is told later."""
        before = self.states.get(state.subscription)
        if before is None and len(self.states) >= SUBSCRIPTIONS_MAX and self._ended:
            self._forget(next(iter(self._ended)))
        self._keep(state, before)
        self._spread(state, "")

    def raise_done(
        self, subscription: str, marks: Marks, spans: Spans, drops: Drops, tries: tuple[Tries, ...] = ()
    ) -> None:
        """More is done, or was tried."""
        state = self.states[subscription]
        self._raise(subscription, marks, spans, drops, tries)
        for part, more in in_parts(marks):
            news = DurableDone(subscription, state.term, part, () if more else spans, drops, () if more else tries)
            self._outbound.extend([(name, news) for name in self._links])

    # -- said by others ------------------------------------------------------------------------------------------------

    def known(self, link: Link, message: DurableKnown) -> None:
        if not self.learn(message.state, link.name):
            state = message.state
            answer = DurableHeard(state.subscription, state.term, state.edition)
            self._outbound.append((link.name, answer))

    def learn(self, state: DurableState, source: str) -> bool:
        """Whether it is news; whoever says what is old is told better."""
        check_progress(state.done, state.spans, state.drops, state.tries)
        before = self.states.get(state.subscription)
        if before is not None and state.age <= before.age:
            self._raise(state.subscription, state.done, state.spans, state.drops, state.tries)
            if state.age < before.age and source:
                self._outbound.append((source, DurableKnown(self.whole(before))))
            return False
        if state.is_partial and not _continues(state, before):
            if before is not None and source:
                self._outbound.append((source, DurableKnown(self.whole(before))))  # it answers with all that it knows
            return False
        _check(state)
        if before is not None and (state.term > before.term + TERM_LEAP_MAX or self._defends(state)):
            self.passed_over += 1
            return False
        if before is None and len(self.states) >= SUBSCRIPTIONS_MAX and not self._make_room():
            return False
        self._keep(state, before)
        self._spread(state, source)
        self._changed(state)
        return True

    def heard(self, link: Link, message: DurableHeard) -> None:
        self._echo.answered((message.subscription, message.term, message.edition), link.name, message)

    def done(self, link: Link, message: DurableDone) -> None:
        check_progress(message.marks, message.spans, message.drops, message.tries)
        state = self.states.get(message.subscription)
        if state is None or state.term != message.term:
            return
        self._raise(message.subscription, message.marks, message.spans, message.drops, message.tries)
        self._outbound.extend([(name, message) for name in self._links if name != link.name])

    # -- ids ----------------------------------------------------------------------------------------------------------

    def ids_of(self, subscription: str) -> IdBatches:
        progress = self._done.get(subscription)
        return progress.ids.all() if progress is not None and progress.ids else ()

    def all_ids(self) -> Iterator[tuple[str, IdBatches]]:
        for name in self._with_ids:
            if ids := self.ids_of(name):
                yield name, ids

    def say_ids(self, subscription: str, ids: IdBatches, source: str = "") -> None:
        """Messages with these ids have come. Keep what is new, and pass it on."""
        state, progress = self.states.get(subscription), self._done.get(subscription)
        if not ids or state is None or state.over or progress is None:
            return
        self._with_ids[subscription] = None
        latest_s = self._wall_us // 1_000_000  # the clock of another broker may be ahead
        came = progress.ids.add([IdBatch(min(each.at_s, latest_s), each.ids) for each in ids])
        if came:
            if self._disk is not None:
                self._disk.durable_ids(subscription, came)
            news = DurableIds(subscription, came)
            self._outbound.extend([(name, news) for name in self._links if name != source])

    def ids(self, link: Link, message: DurableIds) -> None:
        check_ids(message.ids)
        self.say_ids(message.subscription, message.ids, link.name)

    def forget_ids(self) -> None:
        """Now and then: forget ids that are too old to tell a repeat."""
        if self._with_ids and self._wall_us - self._forgot_us >= FORGET_US:
            self._forgot_us = self._wall_us
            before_s = (self._wall_us - 2 * self._life.options.message_id_us) // 1_000_000
            for name in list(self._with_ids):
                progress = self._done.get(name)
                if progress is not None:
                    progress.ids.forget(before_s)
                if progress is None or not progress.ids:
                    del self._with_ids[name]

    @property
    def _wall_us(self) -> int:
        return self._life.seat.epoch_us + self._life.now_us

    # -- new links -----------------------------------------------------------------------------------------------------

    def meet(self, neighbour: str, theirs: Iterable[DurableState], ids: Iterable[DurableIds] = ()) -> None:
        """The first word of a new neighbour. What it does not know it is told."""
        told = {state.subscription: state for state in theirs}
        for state in told.values():
            self.learn(state, neighbour)
        for name, state in self.states.items():
            if name not in told:
                self._outbound.append((neighbour, DurableKnown(self.whole(state))))
                if known := self.ids_of(name):
                    self._outbound.append((neighbour, DurableIds(name, known)))
        for each in ids:
            self.say_ids(each.subscription, each.ids, neighbour)

    def lost(self, neighbour: str) -> None:
        """Stop waiting for a neighbour that is replaced by others."""
        self._echo.unwait(neighbour)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _keep(self, state: DurableState, before: DurableState | None) -> None:
        if before is not None and before.over:
            self._unlist(before)
        self.states.pop(state.subscription, None)
        if before is None or before.over or state.over:
            self._done.pop(state.subscription, None)
        progress = self._done.setdefault(state.subscription, DurableProgress())
        progress.add(state.done, state.spans)
        progress.tries.add(state.tries)
        progress.drops = progress.drops.joined(state.drops)
        base = before.base if state.is_partial and before is not None else state.base
        kept = msgspec.structs.replace(state, base=base, done=(), spans=(), drops=NO_DROPS, is_partial=False, tries=())
        self.states[state.subscription] = kept
        if kept.over:
            self._list(kept)
        self._spilling.know(before, kept)
        if self._disk is not None:
            self._disk.durable(state if state.is_partial else self.whole(kept))

    def _raise(self, subscription: str, marks: Marks, spans: Spans, drops: Drops, tries: tuple[Tries, ...]) -> None:
        progress = self._done.setdefault(subscription, DurableProgress())
        new, more = progress.add(marks, spans)
        tried = tuple(progress.tries.add(tries))
        before, progress.drops = progress.drops, progress.drops.joined(drops)
        if (new or more or tried or progress.drops != before) and self._disk is not None:
            self._disk.durable_done(subscription, self.states[subscription].term, new, more, progress.drops, tried)

    def _spread(self, state: DurableState, source: str) -> None:
        """Tell everybody but `source`, which is answered when all know it; without one, `heard_of` is called."""
        wave = (state.subscription, state.term, state.edition)
        news = DurableKnown(state if state.is_partial else self.whole(state))
        self._echo.ask(
            wave,
            [name for name in self._links if name != source],
            lambda name: self._outbound.append((name, news)),
            lambda: self._complete(wave, source),
        )

    def _complete(self, wave: _Wave, source: str) -> None:
        state = self.states.get(wave[0])
        if source in self._links:
            self._outbound.append((source, DurableHeard(*wave)))
        elif not source and state is not None and (state.term, state.edition) == wave[1:]:
            self._heard_of(state)

    def _make_room(self) -> bool:
        """Forget the one that was ended longest ago. Return whether one more may be remembered. Whoever tells of it has
        only passed it on, so nobody is to blame: their homes refuse consumers who want more."""
        if self._ended:
            self._forget(next(iter(self._ended)))
        elif len(self.states) >= KNOWN_MAX:
            if not self._is_over_full:
                self._is_over_full = True
                self._life.note("note", f"{KNOWN_MAX} durable subscriptions are known, and no more are remembered")
            self.passed_over += 1
            return False
        return True

    def _list(self, state: DurableState) -> None:
        """It is over. Its owner's oldest one makes room where there are too many of that owner."""
        self._ended[state.subscription] = None
        if state.owner:
            of_owner = self._ended_of.setdefault(state.owner, {})
            of_owner[state.subscription] = None
            if len(of_owner) > ENDED_PER_OWNER_MAX:
                self._forget(next(iter(of_owner)))

    def _unlist(self, state: DurableState) -> None:
        del self._ended[state.subscription]
        if state.owner:
            of_owner = self._ended_of[state.owner]
            del of_owner[state.subscription]
            if not of_owner:
                del self._ended_of[state.owner]

    def _forget(self, ended: str) -> None:
        """What is over spills nothing, so nobody else has to know."""
        self._unlist(self.states.pop(ended))
        self._done.pop(ended, None)


def _continues(state: DurableState, before: DurableState | None) -> bool:
    """Whether what a partial state leaves out is known."""
    return before is not None and not before.over and (before.term, before.home) == (state.term, state.home)


def _check(state: DurableState) -> None:
    """PeerError for what no honest broker says or passes on."""
    try:
        check_name(state.subscription)
        parse_predicate(state.terms.filter, state.terms.where)
    except UsageError as error:
        raise PeerError(str(error)) from None
