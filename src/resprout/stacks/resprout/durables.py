"""Durable subscriptions of the default stack: which broker holds one, and who holds it next.

Each lives at one broker, its *home*: where somebody first asked for it. There it is a reader like a client, but one
that stays. Every broker knows all of them (`durable_book`), so a consumer that comes elsewhere is sent to the home.
When that is dead, whoever has its ghost takes over its durable subscriptions at once, as if each were a client that
came and brought along what is known of it: the share of the ghost that is not done is claimed, and nothing waits for a
consumer to return. After everything had stopped it is the same, with what the disks say.
"""

from typing import Final

import msgspec

from resprout.core.bounds import next_number
from resprout.core.contract import Send
from resprout.core.errors import UsageError
from resprout.core.marks import Marks
from resprout.core.names import check_name
from resprout.edge.broker.consumers import Consumers, HeldDurable, inner_name
from resprout.edge.broker.ghosts import Ghosts
from resprout.edge.broker.grants import fault_of_consumer, fault_of_end
from resprout.edge.broker.quotas import LimitError
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import (
    Acknowledge,
    Acknowledged,
    Consume,
    Consuming,
    EndSubscription,
    Replayed,
    Standing,
    WhenFull,
)
from resprout.edge.messages import Attend, GoTo, HeldSubscription, Subscribe, Successor
from resprout.filters.predicate import parse_predicate
from resprout.overlay.places import Life
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.durable_book import SUBSCRIPTIONS_MAX
from resprout.stacks.resprout.durable_done import UnknownDone
from resprout.stacks.resprout.durable_state import CONSUMERS_TOLD, MARKS_MAX, DurableState
from resprout.stacks.resprout.served_clients import ServedClients
from resprout.stacks.shell.desk import Handler

RETURN_LEASES: Final = 4
"""So long the next broker of a subscription waits for the consumers of the last one: what they have, and have done,
only they know."""
GONE_BEATS: Final = 6
"""A consumer that shares, and was not heard for so many heartbeats, has what it has taken from it."""


class Durables:
    def __init__(self, core: Core, ghosts: Ghosts, book: ClientBook, served: ServedClients) -> None:
        self._core = core
        self._ghosts = ghosts
        self._book = book
        self._served = served
        self.consumers = Consumers(core.sessions, self._consumers_changed, core.log, core.options.subscriber_bytes)
        self._waiting: dict[str, Consume] = {}
        """Consumers that came and cannot be served yet."""
        self._silent: dict[str, int] = {}
        """Consumers that are not heard, and since when."""
        self._unknown: dict[str, UnknownDone] = {}
        """By subscription: what everybody was told, and may not have heard."""
        core.sessions.is_confirmed = self._confirmed
        served.left = self.leave
        served.looked = self.decide_all
        served.durables = (book.durables.states, self._waiting)
        book.durables.changed = self._changed
        book.durables.heard_of = self._heard_of
        self.of_clients: dict[type, Handler] = {
            Consume: self.consume,
            Acknowledge: self.consumers.acknowledge,
            Replayed: self.consumers.replayed,
            EndSubscription: self._end,
        }

    # -- consumers -----------------------------------------------------------------------------------------------------

    def consume(self, session: ClientSession, message: Consume) -> None:
        session.consumes = True
        if self._served.is_superseded(session):
            return
        self._waiting[session.name] = message
        self._decide(session)

    def leave(self, name: str) -> None:
        """The session of a client is over."""
        self._waiting.pop(name, None)
        self._silent.pop(name, None)
        self.consumers.leave(name)

    def silent(self, name: str) -> None:
        held = self.consumers.of(name)
        if held is not None and held.terms.group:
            self._silent.setdefault(name, self._core.now_us)

    def heard(self, name: str) -> None:
        self._silent.pop(name, None)

    def decide_all(self) -> None:
        """Something has changed: look again at those that wait, and at what nobody holds."""
        if self._served.serving and not self._core.retired:
            self._take_over()
        for name in list(self._waiting):
            session = self._core.sessions.all.get(name)
            if session is not None:
                self._decide(session)

    def tick(self) -> None:
        """With the signs of life: how far all have come, and who is gone."""
        core = self._core
        all_heard = not any(link.silent for link in core.links.values())
        self._unknown = {name: one for name, one in self._unknown.items() if name in self.consumers.held}
        for held in list(self.consumers.held.values()):
            unknown = self._unknown.setdefault(held.name, UnknownDone(core.now_us))
            marks, spans = self.consumers.progress(held)
            if (marks or spans) and held.is_confirmed:
                self._book.durables.raise_done(held.name, marks, spans)
                unknown.note(marks, spans)
            if all_heard:
                self.consumers.tell(held, Acknowledged(unknown.turn(core.now_us, core.options.lease_us)), core.out)
            else:
                marks, spans = unknown.unshared()
                self.consumers.tell(held, Acknowledged(marks, known=False, spans=spans), core.out)
            if held.awaited and core.now_us >= held.awaited_until_us:
                held.awaited.clear()
                self.consumers.waking[inner_name(held.name)] = held.queue.session
        patience_us = GONE_BEATS * core.options.heartbeat_us
        for name in [name for name, since_us in self._silent.items() if core.now_us - since_us >= patience_us]:
            del self._silent[name]
            self.consumers.leave(name)
            self._served.cut_off(name, "it was not heard for too long, and others have what it had")

    def hand_out(self) -> None:
        """At the end of a step that left something to be handed out."""
        self.consumers.hand_out(self._core.now_us, self._core.out)

    def _decide(self, session: ClientSession) -> None:
        core = self._core
        message = self._waiting[session.name]
        if not (core.attached and core.goes_on):
            return
        state = self._book.durables.states.get(message.subscription)
        held = self.consumers.held.get(message.subscription)
        if fault := self._fault(session, message, held, state):
            del self._waiting[session.name]
            core.out.append(Send(session.name, Consuming(Standing.REFUSED, fault)))
            return
        if held is None and state is not None and not state.over:
            if self._may_live(state.home):
                del self._waiting[session.name]
                core.out.append(Send(session.name, GoTo(Successor(state.home.name, state.address))))
            return  # somebody will hold it
        if not self._served.serving:
            return
        del self._waiting[session.name]
        self._served.begin(session)
        if message.ends:
            reason = f"there is no durable subscription {message.subscription!r}"
            standing = Standing.REFUSED if held is None else Standing.ENDED
            if held is not None:
                self._end_held(held)
            core.out.append(Send(session.name, Consuming(standing, reason)))
            return
        if held is None:
            refusal = self._refusal(session, message, state)
            if refusal is not None:
                core.out.append(Send(session.name, refusal))
                return
            held = self._begin(message, state, session.identity)
        self.consumers.join(held, session, message, core.out)
        unknown = self._unknown.get(held.name)
        if unknown is not None and self.consumers.of(session.name) is held:
            marks, spans = unknown.all()
            if marks or spans:
                core.out.append(Send(session.name, Acknowledged(marks, known=False, spans=spans)))

    def _fault(
        self, session: ClientSession, message: Consume, held: HeldDurable | None, state: DurableState | None
    ) -> str:
        """Why it may not be consumed, or ended, by whoever asks; empty when it may. Every broker knows the owner."""
        owner = held.owner if held is not None else state.owner if state is not None and not state.over else None
        if not message.ends:
            return fault_of_consumer(session, message.subscription, owner)
        return fault_of_end(session, message.subscription, owner) if owner is not None else ""

    def _may_live(self, home: Life) -> bool:
        """As far as this broker knows; one that is far away may be dead, and then it will hear of another one."""
        core = self._core
        if home.name == core.seat.name:
            return False
        return not core.view.is_dead_life(home) and core.view.incarnation_of(home.name) <= home.incarnation

    def _refusal(self, session: ClientSession, message: Consume, state: DurableState | None) -> Consuming | None:
        """Of one that is not there."""
        if message.turn:
            if state is not None:
                return Consuming(Standing.ENDED, f"{message.subscription!r} was ended")
            return Consuming(
                Standing.INCOMPLETE, f"nobody knows {message.subscription!r} any more: messages may be missing"
            )
        try:
            check_name(message.subscription, "name of a durable subscription")
            self._core.sessions.quotas.charge_parsing(session, len(message.terms.where or ""), self._core.now_us)
            predicate = parse_predicate(message.terms.filter, message.terms.where)
        except UsageError as error:
            return Consuming(Standing.REFUSED, str(error))
        if self._book.durables.is_full():
            limit = f"the network has {SUBSCRIPTIONS_MAX} durable subscriptions, the most it may have"
            return Consuming(Standing.REFUSED, f"{limit} (limit durable_subscriptions)")
        if message.terms.when_full is WhenFull.DROP_OLDEST and not message.terms.most:
            return Consuming(Standing.REFUSED, "nothing may wait, so nothing would be left")
        if message.terms.when_full is WhenFull.SPILL and not self._core.spilling.is_offered:
            reason = f"{self._core.seat.name} spills nothing to disk (its spill_bytes is 0)"
            return Consuming(Standing.UNSUPPORTED, reason)
        quotas = self._core.sessions.quotas
        try:
            quotas.take_durable(session, message.subscription, predicate)
        except LimitError as error:
            quotas.refuse(session, error, self._core.out)
            return Consuming(Standing.REFUSED, str(error))
        return None

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def _begin(self, message: Consume, former: DurableState | None, owner: str, missing: str = "") -> HeldDurable:
        """It is new, and lives here."""
        core = self._core
        held = self.consumers.open(message.subscription, message.terms)
        held.owner = owner
        held.missing, held.replay = missing, message.replay
        held.term = next_number(former.term) if former is not None else 1
        session = held.queue.session
        self._book.listeners.came(session.name)
        core.sessions.subscribe(session, Subscribe(1, message.terms.filter, message.terms.where), core.out)
        if core.disk is not None and message.terms.filter.startswith("$"):
            core.disk.asked()
        return held

    def _confirmed(self, session: ClientSession, base: Marks) -> None:
        """Nothing that matches is missed from here on: everybody is told, and then its consumers."""
        held = self.consumers.held[session.name[1:]]
        held.base = base[-MARKS_MAX:]
        self._book.durables.say(self._state(held))

    def _heard_of(self, state: DurableState) -> None:
        held = self.consumers.held.get(state.subscription)
        if held is not None and not held.is_confirmed:
            self.consumers.confirmed(held, self._core.out)

    def _state(self, held: HeldDurable) -> DurableState:
        core = self._core
        marks, spans = self._book.durables.done_of(held.name)
        return DurableState(
            held.name, held.terms, held.term, Life(core.seat.name, core.seat.incarnation), core.seat.address,
            held.edition, held.base, marks, held.turn, tuple(held.queue.consumers)[:CONSUMERS_TOLD], held.replay,
            spans=spans, owner=held.owner,
        )  # fmt: skip

    def _consumers_changed(self, held: HeldDurable) -> None:
        """Whoever holds it next waits for these."""
        if held.is_confirmed:
            held.edition = next_number(held.edition)
            self._book.durables.say(self._state(held))

    def _changed(self, state: DurableState) -> None:
        """Somebody else has said so."""
        core = self._core
        held = self.consumers.held.get(state.subscription)
        if held is None:
            return
        name = inner_name(state.subscription)
        if state.over:
            self.consumers.close(state.subscription, Standing.ENDED, f"{state.subscription!r} was ended", core.out)
        else:
            self.consumers.move(state.subscription, Successor(state.home.name, state.address), core.out)
        self._left(name)

    def _end(self, session: ClientSession, message: EndSubscription) -> None:
        core = self._core
        held = self.consumers.of(session.name)
        if held is None:
            core.out.append(Send(session.name, Consuming(Standing.ENDED, "it consumes nothing any more")))
        elif fault := fault_of_end(session, held.name, held.owner):
            core.out.append(Send(session.name, Consuming(Standing.REFUSED, fault)))
        else:
            self._end_held(held)

    def _end_held(self, held: HeldDurable) -> None:
        core = self._core
        held.edition = next_number(held.edition)
        over = msgspec.structs.replace(self._state(held), over=True, base=(), done=(), consumers=(), spans=())
        self.consumers.close(held.name, Standing.ENDED, f"{held.name!r} was ended", core.out)
        self._left(inner_name(held.name))
        self._book.durables.say(over)

    def _left(self, name: str) -> None:
        self._core.routes.forget()
        self._book.listeners.check((name,))

    # -- those of dead brokers -----------------------------------------------------------------------------------------

    def _take_over(self) -> None:
        for state in list(self._book.durables.states.values()):
            if state.over or state.subscription in self.consumers.held:
                continue
            if self._ghosts.knows(state.home):
                upto = self._ghosts.brought_upto(state.home)
                if self._served.is_shown(upto):
                    self._adopt(state)
                else:
                    self._served.awaited.append(upto)
            elif self._is_lost(state.home):
                again = Consume(state.subscription, state.terms, 1)
                self._begin(again, state, state.owner, f"what {state.home.name} had for {state.subscription!r} is lost")

    def _is_lost(self, home: Life) -> bool:
        """Whether this broker has to begin it anew: nobody can make good what it missed."""
        core = self._core
        mine = home.name == core.seat.name
        if core.lost.is_given_up(home):
            return mine or (core.view.parent is None and core.view.incarnation_of(home.name) <= home.incarnation)
        is_over = core.now_us - self._core.lost.began_us > core.options.ghost_us
        return mine and home.incarnation < core.seat.incarnation and is_over and self._core.lost.keeper_of(home) is None

    def _adopt(self, state: DurableState) -> None:
        core, terms = self._core, state.terms
        done, spans = self._book.durables.done_of(state.subscription)
        held = self.consumers.open(state.subscription, terms, done, spans)
        held.term, held.turn, held.base = next_number(state.term), state.turn, state.base
        held.replay, held.owner = state.replay, state.owner
        held.awaited = set(state.consumers)
        held.awaited_until_us = core.now_us + RETURN_LEASES * core.options.lease_us
        held.is_confirmed = True
        subscription = HeldSubscription(1, terms.filter, terms.where, state.base)
        attend = Attend(0, (state.home.name,), done, (subscription,), home=state.home.incarnation)
        self._served.welcome_inner(held.queue.session, attend)
        held.queue.again_below = core.log.next_no
        core.note("durable", f"{state.subscription} of {state.home.name} is held here from now on")
        self._book.durables.say(self._state(held))
