"""Durable subscriptions of the default stack: which broker holds one, and who holds it next.

Each lives at one broker, its *home*: where somebody first asked for it. There it is a reader like a client, but one
that stays. Every broker knows all of them (`durable_book`), so a consumer that comes elsewhere is sent to the home.
When that is dead, whoever has its ghost takes over its durable subscriptions at once, as if each were a client that
came and brought along what is known of it: the share of the ghost that is not done is claimed, and nothing waits for a
consumer to return. After everything had stopped it is the same, with what the disks say.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from resprout.core.contract import Send, SetTimer
from resprout.core.message_fields import Marks, next_number
from resprout.edge.broker.consumers import Consumers, HeldDurable, inner_name
from resprout.edge.broker.ghosts import Ghosts
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.durable_messages import (
    NO_DROPS,
    Acknowledged,
    Consume,
    Consuming,
    DurableAction,
    DurableDue,
    EndSubscription,
    RetryDue,
    Settle,
    Standing,
)
from resprout.edge.messages import Attend, GoTo, HeldSubscription, Subscribe, Successor
from resprout.edge.rights import fault_of_consumer, fault_of_end, fault_of_peek
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.overlay.messages import Life
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.dead_letters import DeadLetters, store_name, store_terms
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.durable_admission import DurableAdmission
from resprout.stacks.resprout.durable_state import CONSUMERS_TOLD, STATE_MARKS_MAX, DurableState, UnknownDone
from resprout.stacks.resprout.follow_ups import FollowUps
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.lost_brokers import LostBrokers
from resprout.stacks.resprout.served_clients import ServedClients
from resprout.stacks.resprout.spilling import Spilling
from resprout.stacks.routes import Routes

RETURN_LEASES: Final = 4
"""So long the next broker of a subscription waits for the consumers of the last one: what they have, and have done,
only they know."""
CHANGES_TOLD: Final = 8
"""Changes of the consumers of a subscription that are told at once, between two signs of life."""
GONE_BEATS: Final = 6
"""A consumer that shares, and was not heard for so many heartbeats, has what it has taken from it."""


class Durables:
    def __init__(
        self,
        life: BrokerLife,
        links: dict[str, Link],
        log: Log,
        sessions: ClientSessions,
        routes: Routes,
        disk: DiskLog | None,
        spilling: Spilling,
        lost: LostBrokers,
        ghosts: Ghosts,
        book: ClientBook,
        served: ServedClients,
        holds_lease: Callable[[int], bool],
        make_dead_letters: Callable[[Consumers], DeadLetters],
        make_follow_ups: Callable[[Consumers], FollowUps],
    ) -> None:
        """`holds_lease` tells whether this broker has certainly not been declared dead."""
        self._holds_lease = holds_lease
        self._life = life
        self._links = links
        self._log = log
        self._sessions = sessions
        self._routes = routes
        self._disk = disk
        self._lost = lost
        self._ghosts = ghosts
        self._book = book
        self._served = served
        options = life.options
        self.consumers = Consumers(
            sessions,
            self._consumers_changed,
            log,
            options.subscriber_room,
            options.heartbeat_us,
            life.seat.epoch_us,
            options.message_id_us,
        )
        self._admission = DurableAdmission(life, sessions, book.durables, spilling, self.consumers)
        self.dead_letters, self.follow_ups = make_dead_letters(self.consumers), make_follow_ups(self.consumers)
        self._waiting: dict[str, Consume] = {}
        """Consumers that came and cannot be served yet."""
        self._silent: dict[str, int] = {}
        """Consumers that are not heard, and since when."""
        self._busy: dict[str, None] = {}
        """Of these, the ones whose connections stood."""
        self._denied: dict[str, int] = {}
        """By subscription: the term that somebody claimed for another broker, to be outdone at the next sign of
        life."""
        self._unknown: dict[str, UnknownDone] = {}
        """By subscription: what everybody was told, and may not have heard."""

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
        self.heard(name)
        self.consumers.leave(name)

    def silent(self, name: str, was_open: bool) -> None:
        """A consumer is not heard. One whose connection stood may only be busy: it keeps what it has until that has to
        be acknowledged."""
        held = self.consumers.of(name)
        if held is not None and held.terms.group:
            self._silent.setdefault(name, self._life.now_us)
            if was_open:
                self._busy[name] = None

    def heard(self, name: str) -> None:
        self._silent.pop(name, None)
        self._busy.pop(name, None)

    def decide_all(self) -> None:
        """Something has changed: look again at consumers that wait, and at subscriptions that no broker holds."""
        if not self._book.durables.states and not self._waiting:
            return
        if self._served.serving and not self._life.retired:
            self._take_over()
        for name in list(self._waiting):
            session = self._sessions.all.get(name)
            if session is not None:
                self._decide(session)

    def tick(self) -> None:
        """With the signs of life: how far all have come, and who is gone."""
        life = self._life
        all_heard = not any(link.silent for link in self._links.values())
        self._unknown = {name: one for name, one in self._unknown.items() if name in self.consumers.held}
        self._book.durables.forget_ids()
        for held in list(self.consumers.held.values()):
            if (denied := self._denied.pop(held.name, 0)) >= held.term:
                held.term = next_number(denied)
                self._book.durables.say(self._state(held))
            elif held.changes > CHANGES_TOLD:
                self._say_consumers(held)
            held.changes = 0
            unknown = self._tell_progress(held)
            if all_heard:
                self.consumers.tell(held, Acknowledged(unknown.turn(life.now_us, life.options.lease_us)), life.out)
            else:
                marks, spans = unknown.unshared()
                self.consumers.tell(held, Acknowledged(marks, known=False, spans=spans), life.out)
        patience_us = GONE_BEATS * life.options.heartbeat_us
        for name in [name for name, since_us in self._silent.items() if life.now_us - since_us >= patience_us]:
            if name in self._busy and self.consumers.is_busy(name):
                continue
            self.heard(name)
            self.consumers.leave(name)
            self._served.cut_off(name, "it was not heard for too long, and others have what it had")

    def tell_progress(self) -> None:
        """Tell all brokers what has been acknowledged since the last heartbeat: this broker leaves."""
        for held in self.consumers.held.values():
            self._tell_progress(held)

    def _tell_progress(self, held: HeldDurable) -> UnknownDone:
        unknown = self._unknown.setdefault(held.name, UnknownDone(self._life.now_us))
        held.queue.retries.now_us = self._life.now_us
        held.queue.decide_repeats(is_final=False)
        marks, spans = self.consumers.progress(held)
        held.queue.release_dropped()
        drops = held.queue.drops.known()
        tries = held.queue.retries.take_untold() if held.is_confirmed else ()
        ids = held.queue.retries.repeats.take_untold() if held.is_confirmed else ()
        self._book.durables.say_ids(held.name, ids)
        is_new = bool(marks or spans or tries) or drops != self._book.durables.drops_of(held.name)
        if held.is_confirmed and is_new:
            self._book.durables.raise_done(held.name, marks, spans, drops, tries)
        if held.is_confirmed and (is_new or ids):
            held.queue.told()
            unknown.note(marks, spans)
        return unknown

    def due(self, timer: DurableDue) -> None:
        held = self.consumers.held.get(timer.subscription)
        if held is not None:
            if self._life.now_us >= held.awaited_until_us:
                held.awaited.clear()
            self.consumers.waking[inner_name(held.name)] = held.queue.session

    def retry_due(self, timer: RetryDue) -> None:
        held = self.consumers.held.get(timer.subscription)
        if held is not None:
            held.retry_us = 0
            self.dead_letters.look(held)
            self.follow_ups.look(held)
            self.consumers.waking[inner_name(held.name)] = held.queue.session

    def settle(self, session: ClientSession, message: Settle) -> None:
        self.consumers.settle(session, message, self._life.now_us)

    def hand_out(self) -> None:
        """At the end of a step that left something to be handed out."""
        self.consumers.hand_out(self._life.now_us, self._life.out)

    def _decide(self, session: ClientSession) -> None:
        life = self._life
        message = self._waiting[session.name]
        if not (life.attached and life.goes_on):
            return
        state = self._book.durables.states.get(message.subscription)
        held = self.consumers.held.get(message.subscription)
        if fault := self._fault(session, message, held, state):
            del self._waiting[session.name]
            life.out.append(Send(session.name, Consuming(Standing.REFUSED, fault)))
            return
        if held is None and state is not None and not state.over:
            if self._may_live(state.home):
                del self._waiting[session.name]
                life.out.append(Send(session.name, GoTo(Successor(state.home.name, state.address))))
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
            life.out.append(Send(session.name, Consuming(standing, reason)))
            return
        if message.action is not DurableAction.CONSUME:
            self._look_into(session, message, held)
            return
        if held is None:
            refusal = self._admission.refusal(session, message, state)
            if refusal is not None:
                life.out.append(Send(session.name, refusal))
                return
            held = self._begin(message, state, session.identity)
            self._begin_store(held, session)
        self.consumers.join(held, session, message, life.now_us, life.out)
        unknown = self._unknown.get(held.name)
        if unknown is not None and self.consumers.of(session.name) is held:
            marks, spans = unknown.all()
            if marks or spans:
                life.out.append(Send(session.name, Acknowledged(marks, known=False, spans=spans)))

    def _look_into(self, session: ClientSession, message: Consume, held: HeldDurable | None) -> None:
        """Show or drop what waits, for a client that does not consume."""
        life = self._life
        if held is None:
            reason = f"there is no durable subscription {message.subscription!r}"
        elif message.action is DurableAction.PURGE:
            reason = f"{held.queue.purge()} messages were dropped"
            self.consumers.waking[inner_name(held.name)] = held.queue.session
        elif fault := fault_of_peek(session, held.terms.filter):
            life.out.append(Send(session.name, Consuming(Standing.REFUSED, fault)))
            return
        else:
            self.consumers.peek(held, session, message.window, life.out)
            reason = "that is all"
        life.out.append(Send(session.name, Consuming(Standing.REFUSED if held is None else Standing.ENDED, reason)))

    def _fault(
        self, session: ClientSession, message: Consume, held: HeldDurable | None, state: DurableState | None
    ) -> str:
        """Why it may not be consumed, or ended, by whoever asks; empty when it may. Every broker knows the owner."""
        owner = held.owner if held is not None else state.owner if state is not None and not state.over else None
        if not (message.ends or message.action is DurableAction.PURGE):
            return fault_of_consumer(session, message.subscription, owner)
        return fault_of_end(session, message.subscription, owner) if owner is not None else ""

    def _may_live(self, home: Life) -> bool:
        """As far as this broker knows; one that is far away may be dead, and then it will hear of another one."""
        life = self._life
        if home.name == life.seat.name:
            return False
        return not life.view.is_dead_life(home) and life.view.incarnation_of(home.name) <= home.incarnation

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def _begin(self, message: Consume, former: DurableState | None, owner: str, missing: str = "") -> HeldDurable:
        """It is new, and lives here."""
        life = self._life
        goes_on = former is not None and not former.over
        drops = self._book.durables.drops_of(message.subscription) if goes_on else NO_DROPS
        held = self.consumers.open(message.subscription, message.terms, drops=drops)
        held.owner = owner
        held.missing, held.replay = missing, message.replay
        held.term = next_number(former.term) if former is not None else 1
        session = held.queue.session
        self._book.listeners.came(session.name)
        self._sessions.subscribe(session, Subscribe(1, message.terms.filter, message.terms.where), life.out)
        if self._disk is not None:
            self._disk.asked(session.subscriptions.values())
        return held

    def _begin_store(self, held: HeldDurable, session: ClientSession) -> None:
        """Keep its dead letters from now on, unless that is done already."""
        if self._admission.needs_store(held.name, held.terms):
            name = store_name(held.name)
            self._begin(
                Consume(name, store_terms(held.terms), 1), self._book.durables.states.get(name), session.identity
            )

    def confirmed(self, session: ClientSession, base: Marks) -> None:
        """Nothing that matches is missed from here on: everybody is told, and then its consumers."""
        held = self.consumers.held[session.name[1:]]
        held.base = base[-STATE_MARKS_MAX:]
        self._book.durables.say(self._state(held))

    def heard_of(self, state: DurableState) -> None:
        """All brokers know that it is held here. Consumers that have come meanwhile are told to them now."""
        held = self.consumers.held.get(state.subscription)
        if held is not None and not held.is_confirmed:
            self.consumers.confirmed(held, self._life.out)
            if tuple(held.queue.consumers)[:CONSUMERS_TOLD] != state.consumers:
                self._consumers_changed(held)

    def _state(self, held: HeldDurable, is_partial: bool = False) -> DurableState:
        life = self._life
        marks, spans = ((), ()) if is_partial else self._book.durables.done_of(held.name)
        return DurableState(
            held.name, held.terms, held.term, Life(life.seat.name, life.seat.incarnation), life.seat.address,
            held.edition, () if is_partial else held.base, marks, held.turn,
            tuple(held.queue.consumers)[:CONSUMERS_TOLD], held.replay, spans=spans, owner=held.owner,
            drops=self._book.durables.drops_of(held.name), is_partial=is_partial,
            tries=() if is_partial else self._book.durables.tries_of(held.name),
        )  # fmt: skip

    def _consumers_changed(self, held: HeldDurable) -> None:
        """Tell everybody: whoever holds it next waits for these. After many changes between two signs of life, the
        next one tells of all that follow."""
        if not held.is_confirmed:
            return
        held.changes += 1
        if held.changes <= CHANGES_TOLD:
            self._say_consumers(held)

    def _say_consumers(self, held: HeldDurable) -> None:
        held.edition = next_number(held.edition)
        self._book.durables.say(self._state(held, is_partial=True))

    def defends(self, state: DurableState) -> bool:
        """Whether a state that another broker has said cannot be true, because the subscription is held here. It goes
        to another broker, or is begun anew, only after its home has died, left or ended it. While this broker has its
        lease, nobody has declared it dead. It says at its next sign of life that it holds the subscription, in a later
        term, for those who believed the other state."""
        held, life = self.consumers.held.get(state.subscription), self._life
        if held is None or not held.is_confirmed or state.term <= held.term:
            return False
        if life.leaving or life.retired or not life.goes_on or not self._holds_lease(life.now_us):
            return False
        if held.name not in self._denied:
            life.note("note", f"a broker claims {held.name!r}, which is held here, for {state.home.name}")
        self._denied[held.name] = max(state.term, self._denied.get(held.name, 0))
        return True

    def changed(self, state: DurableState) -> None:
        """Somebody else has said so."""
        life = self._life
        held = self.consumers.held.get(state.subscription)
        if held is None:
            return
        name = inner_name(state.subscription)
        if state.over:
            self.consumers.close(state.subscription, Standing.ENDED, f"{state.subscription!r} was ended", life.out)
        else:
            self.consumers.move(state.subscription, Successor(state.home.name, state.address), life.out)
        self._left(name)

    def end_subscription(self, session: ClientSession, message: EndSubscription) -> None:
        life = self._life
        held = self.consumers.of(session.name)
        if held is None:
            life.out.append(Send(session.name, Consuming(Standing.ENDED, "it consumes nothing any more")))
        elif fault := fault_of_end(session, held.name, held.owner):
            life.out.append(Send(session.name, Consuming(Standing.REFUSED, fault)))
        else:
            self._end_held(held)

    def _end_held(self, held: HeldDurable) -> None:
        life = self._life
        held.edition = next_number(held.edition)
        over = msgspec.structs.replace(
            self._state(held), over=True, base=(), done=(), consumers=(), spans=(), drops=NO_DROPS, tries=()
        )
        self.consumers.close(held.name, Standing.ENDED, f"{held.name!r} was ended", life.out)
        self._left(inner_name(held.name))
        self._book.durables.say(over)

    def _left(self, name: str) -> None:
        self._routes.forget()
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
        life = self._life
        mine = home.name == life.seat.name
        if self._lost.is_given_up(home):
            return mine or (life.view.parent is None and life.view.incarnation_of(home.name) <= home.incarnation)
        is_over = life.now_us - self._lost.began_us > life.options.ghost_us
        return mine and home.incarnation < life.seat.incarnation and is_over and self._lost.keeper_of(home) is None

    def _adopt(self, state: DurableState) -> None:
        life, terms = self._life, state.terms
        done, spans = self._book.durables.done_of(state.subscription)
        drops = self._book.durables.drops_of(state.subscription)
        tries, ids = self._book.durables.tries_of(state.subscription), self._book.durables.ids_of(state.subscription)
        held = self.consumers.open(state.subscription, terms, done, spans, drops, tries, ids)
        held.term, held.turn, held.base = next_number(state.term), state.turn, state.base
        held.replay, held.owner = state.replay, state.owner
        held.awaited = set(state.consumers)
        held.awaited_until_us = life.now_us + RETURN_LEASES * life.options.lease_us
        if held.awaited:
            life.out.append(SetTimer(DurableDue(held.name), held.awaited_until_us))
        held.is_confirmed = True
        subscription = HeldSubscription(1, terms.filter, terms.where, state.base)
        attend = Attend(0, (state.home.name,), done, (subscription,), home=state.home.incarnation)
        self._served.welcome_inner(held.queue.session, attend)
        held.queue.again_below = self._log.next_no
        life.note("durable", f"{state.subscription} of {state.home.name} is held here from now on")
        self._book.durables.say(self._state(held))
