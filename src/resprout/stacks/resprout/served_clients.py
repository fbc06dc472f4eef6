"""Clients of one broker: who is served, who waits, who is sent elsewhere.

A client that lost its broker comes with the names of the brokers it tried. It is served where their ghosts are, sent
there when that is known, and held while that is still being decided. `client_answers` decides; this part finds out what
holds, and acts on the answer.
"""

from collections.abc import Callable, Collection

from resprout.core.contract import Close, EndCode, LinkUp, Send, SetTimer
from resprout.edge.broker.answering import Answering, NothingKept
from resprout.edge.broker.ghosts import Ghosts, home_of
from resprout.edge.broker.quotas import limit_reason
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, GoTo, Successor, Successors, Taken
from resprout.order.entry import Entry
from resprout.overlay.places import Life
from resprout.stacks.resprout.client_answers import Answer, Situation, find_row
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.client_interest import PORTION_US, DropMore
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.lost_brokers import FoundSuccessor
from resprout.stacks.resprout.outcomes import Superseded
from resprout.stacks.resprout.publishing import ClientPublishing


class ServedClients:
    def __init__(
        self, core: Core, ghosts: Ghosts, book: ClientBook, answering: Answering, publishing: ClientPublishing
    ) -> None:
        self._core = core
        self._ghosts = ghosts
        self._book = book
        self._answering = answering
        self._publishing = publishing
        self._waiting: dict[str, Attend] = {}
        """Clients that came and cannot be served yet."""
        self._since: dict[str, int] = {}
        """When they came: what they say about their broker may not have reached this one."""
        self._coming: dict[str, None] = {}
        """Clients that a ghost waits for, which were told `Serving` and have not said that they have come: one that
        hears its old broker again meanwhile turns back."""
        self._successors: tuple[Successor, ...] = ()
        """As clients were told."""
        self.awaited: list[int] = []
        """Places in the log up to which everything must be shown before a client that waits is served."""
        self.left: Callable[[str], None] = lambda name: None
        """Told whose session is over."""
        self.looked: Callable[[], None] = lambda: None
        """Told when all that wait were looked at again, while there is anything in `durables`."""
        self.durables: tuple[Collection[str], ...] = ()
        """Durable subscriptions that are known, and consumers that wait for one."""

    @property
    def serving(self) -> bool:
        """Whether clients that come are served."""
        return self._core.is_settled and not self._core.leaving

    # -- coming --------------------------------------------------------------------------------------------------------

    def arrive(self, event: LinkUp) -> None:
        core, name = self._core, event.peer
        if not event.internal and core.knows_broker(name):
            core.out.append(Close(name, f"{name} is, or was, the name of a broker", EndCode.FORBIDDEN))
        elif name in core.wishes.leaving:
            core.out.append(Close(name, f"the subscriptions of the last session of {name} are being dropped"))
        else:
            core.sessions.arrive(name, event.incarnation, event.room, event.internal, event.identity, event.limits)

    def attend(self, session: ClientSession, message: Attend) -> None:
        self._core.sessions.check_held(session, message, self._core.now_us, self._core.out)
        self._core.clock.hear_client(message.clock)
        if self.is_superseded(session):
            return
        self._waiting[session.name] = message
        self._since[session.name] = self._core.now_us
        if self._core.leaving and not message.tried and (successors := self._core.successors()):
            self._send_to(session, successors[0].name)  # whoever has lost a broker is told when this one goes
        else:
            self._decide(session)

    def is_superseded(self, session: ClientSession) -> bool:
        """By a later life that somebody serves; then it is told, and gone."""
        if self._book.roll.latest(session.name) <= session.incarnation:
            return False
        self._end(session.name)
        return True

    def begin(self, session: ClientSession) -> None:
        """Serve somebody who asks for nothing of its own."""
        core = self._core
        core.sessions.serve(session, core.successors(), True, core.out)
        self._book.roll.learn([Life(session.name, session.incarnation)])

    def cut_off(self, name: str, reason: str, code: EndCode = EndCode.NONE) -> None:
        """End a session. Without a code the client comes again by itself."""
        self._core.out.append(Close(name, reason, code))
        self.leave(name)

    def give_way(self, name: str) -> None:
        """A broker of this name has a place in the tree: a client that is called so is told, and goes."""
        session = self._core.sessions.all.get(name)
        if session is not None:
            self._core.note("name_taken", f"client {name} is cut off: a broker of its name has come")
            self.cut_off(name, f"{name} is the name of a broker, which has come", EndCode.FORBIDDEN)

    def cut_off_overspent(self) -> None:
        """At the end of a step in which testing the conditions of some clients has cost too much."""
        core, overspent = self._core, self._core.sessions.quotas.overspent
        for name, reason in list(overspent.items()):
            most = core.sessions.all[name].limits.identity_steps
            core.sessions.quotas.count(name, limit_reason("identity_steps", most), core.out)
            self.cut_off(name, reason, EndCode.FORBIDDEN)
        overspent.clear()

    def leave(self, name: str) -> None:
        core = self._core
        self.left(name)
        self._waiting.pop(name, None)
        self._since.pop(name, None)
        self._coming.pop(name, None)
        self._answering.leave(name)
        self._publishing.leave(core.sessions.all[name])
        core.log.held_back.put_wall()  # it may go on elsewhere, and say there again what waits here
        core.wishes.leave_slowly(name)
        core.sessions.leave(name, core.out)
        if name in core.wishes.leaving:
            core.out.append(SetTimer(DropMore(), core.now_us + PORTION_US))
        self._book.listeners.check((name,))

    def drop_more(self) -> None:
        """Of clients that left with many subscriptions."""
        core = self._core
        core.sessions.confirm(core.wishes.drop_more(), core.out)
        if core.wishes.leaving:
            core.out.append(SetTimer(DropMore(), core.now_us + PORTION_US))

    def superseded(self, outcome: Superseded) -> None:
        """Earlier lives of these clients are told, and not waited for."""
        core = self._core
        for name in outcome.names:
            session = core.sessions.all.get(name)
            if session is not None and session.incarnation < self._book.roll.latest(name):
                self._end(name)
            if self._ghosts.awaits(name) and name not in self._coming:  # which is of this life, and may lose its way
                self._ghosts.unawait(name)
                self._book.listeners.check((name,))

    def _end(self, name: str) -> None:
        """As if the later one had come to this broker."""
        self._core.out.append(Close(name, f"{name} restarted", EndCode.REPLACED))
        self.leave(name)

    def look_again(self) -> None:
        """At the end of a step, while places are awaited: perhaps what a repair brought is shown by now."""
        if self.is_shown(min(self.awaited)):
            self.decide_all()

    def decide_all(self) -> None:
        """Something has changed: look again at those that wait."""
        self.awaited.clear()
        for name in list(self._waiting):
            session = self._core.sessions.all.get(name)
            if session is not None:
                self._decide(session)
        if any(self.durables):
            self.looked()

    def settle(self) -> None:
        """What a client published before it came here, and of which nothing is left here, may still be kept for others
        by a ghost elsewhere. When no ghost is left, it is delivered. A ghost within view may outlast `ghost_us`."""
        core = self._core
        if not self._answering.unsettled:
            return
        if any(place.looks_after and not core.view.is_dead(place.name) for place in core.view.places.values()):
            if min(self._answering.unsettled.values()) <= core.now_us:
                core.out.append(SetTimer(NothingKept(), core.now_us + core.options.heartbeat_us))
            return
        self._answering.settle(core.now_us)

    def tell_successors(self) -> None:
        """When they have changed."""
        core = self._core
        successors = core.successors()
        if successors != self._successors:
            self._successors = successors
            message = Successors(successors)
            core.out.extend(
                [Send(session.name, message) for session in core.sessions.all.values() if session.attending]
            )

    def _decide(self, session: ClientSession) -> None:
        """Answer a client that waits, or let it wait on."""
        core = self._core
        attend = self._waiting[session.name]
        waited_us = core.now_us - self._since.get(session.name, core.now_us)
        found = core.lost.find(attend, waited_us)
        answer = find_row(self._situation(attend, found, waited_us)).answer
        if answer is Answer.WAIT_FOR_LOG:
            self.awaited.append(self._ghosts.brought_upto(home_of(attend)))
        elif answer is Answer.RESUME:
            self._welcome(session, attend, True)
        elif answer is Answer.SERVE:
            self._welcome(session, attend, not attend.subscriptions)
        elif answer is Answer.SEND_ON:
            assert found.name is not None
            self._send_to(session, found.name)
        elif answer is Answer.SEND_BACK:
            self._send_to(session, core.seat.name)

    def _situation(self, attend: Attend, found: FoundSuccessor, waited_us: int) -> Situation:
        core, home = self._core, home_of(attend)
        return Situation(
            is_leaving=core.leaving,
            has_place=core.attached and core.goes_on,
            is_calm=core.is_calm,
            lost_broker=bool(attend.tried),
            has_subscriptions=bool(attend.subscriptions),
            is_given_up=core.lost.is_given_up(home),
            has_ghost=self._ghosts.knows(home),
            is_shown=self.is_shown(self._ghosts.brought_upto(home)),
            is_home=home == core.own,
            keeper_failed_lately=found.keeper_failed and waited_us < 2 * core.options.heartbeat_us,
            knows_successor=found.name is not None,
            is_successor=found.name == core.seat.name,
            keeps_ghost=found.keeps_ghost,
            insists=attend.anyhow,
        )

    def can_serve(self, ghost: str) -> bool:
        """Whether whoever comes to this ghost is served at once, and those who wait at a member have been sent here."""
        has_grants = not any(map(self._is_being_granted, self._ghosts.members(ghost).items()))
        return self._core.is_settled and has_grants and self.is_shown(self._ghosts.upto(ghost))

    def _is_being_granted(self, member: tuple[Life, int]) -> bool:
        """Whether the Grant of a member is on its way: the member is heard, it has not told its place since the repair,
        and it has not restarted. The next life of a member joins and gets no Grant."""
        core, (life, version) = self._core, member
        link, place = core.links.get(life.name), core.view.places.get(life.name)
        if link is None or place is None or not core.peers.is_heard(life.name):
            return False
        return place.life == life and place.version <= version

    def expects_any(self, ghost: str) -> bool:
        """Whether a client of this ghost is connected: it waits, or was told `Serving` and has not answered."""
        waiting = any(ghost in self._ghosts.of(home_of(attend)) for attend in self._waiting.values() if attend.tried)
        return waiting or any(self._ghosts.is_awaited_by(ghost, name) for name in self._coming)

    def is_shown(self, upto: int) -> bool:
        first = self._core.log.first_held_back
        return first is None or first > upto

    def _send_to(self, session: ClientSession, name: str) -> None:
        place = self._core.view.places.get(name)
        del self._waiting[session.name], self._since[session.name]
        successor = Successor(name, place.address if place is not None else "")
        self._core.out.append(Send(session.name, GoTo(successor)))

    def _welcome(self, session: ClientSession, attend: Attend, resumed: bool) -> None:
        core = self._core
        del self._waiting[session.name], self._since[session.name]
        self._take_in(session, attend, resumed)
        self._publishing.came(session)
        if attend.tried:
            is_certain = self._ghosts.answers_for(home_of(attend))
            is_kept = home_of(attend) in core.lost.kept_by  # until then by others, after that by nobody
            last_us = core.lost.kept_until_us if is_kept else core.now_us + core.options.ghost_us
            due_us = None if is_certain else last_us
            self._answering.adopt(session, self._answered_for(session), due_us)
            if due_us is not None:  # all are settled by then; those who are due before are settled with a heartbeat
                core.out.append(SetTimer(NothingKept(), max(self._answering.unsettled.values())))
        if attend.tried and resumed:
            self._give_share(session, attend)
        if attend.tried and self._ghosts.awaits(session.name):
            self._coming[session.name] = None
        else:
            self._ghosts.unawait(session.name)
        self._book.listeners.check((session.name,))
        if not session.is_internal:  # nobody else can be called like it
            self._book.roll.learn([Life(session.name, session.incarnation)])

    def welcome_inner(self, session: ClientSession, attend: Attend) -> None:
        """A durable subscription of a dead broker, as if it had come by itself."""
        self._take_in(session, attend, True)
        self._give_share(session, attend)
        self._ghosts.unawait(session.name)
        self._book.listeners.check((session.name,))

    def _take_in(self, session: ClientSession, attend: Attend, resumed: bool) -> None:
        """With the subscriptions that it brings along."""
        core = self._core
        if attend.tried and core.disk is not None:
            core.disk.moved(session.name)
        if attend.subscriptions and resumed:
            self._book.listeners.returned(session.name)
        core.sessions.welcome(session, attend, core.successors(), resumed, core.out)
        if core.disk is not None and any(held.filter.startswith("$") for held in attend.subscriptions):
            core.disk.asked()

    def _give_share(self, session: ClientSession, attend: Attend) -> None:
        """Of what was kept for it, and of what is not shown yet."""
        core = self._core
        self._ghosts.claim(session, attend, self._ghosts.of(home_of(attend)), core.out)
        core.log.held_back.put_wall()  # what the client came for may not be asked of everybody yet
        core.sessions.let_read(session, attend, [entry for entry in core.log.held_back if not entry.is_backup])

    def taken(self, session: ClientSession, message: Taken) -> None:
        """Of deliveries; and the first word of a client that has come from elsewhere."""
        if session.name in self._coming:
            del self._coming[session.name]
            self._ghosts.unawait(session.name)
            self._book.listeners.check((session.name,))
        self._core.sessions.taken(session, message, self._core.out)

    def _answered_for(self, session: ClientSession) -> list[Entry]:
        """Publications of the client that this broker answers for, because the broker that took them is dead."""
        core, me = self._core, (session.name, session.incarnation)
        entries = [*core.log.entries.values(), *core.book.entries.values()]
        entries += [entry for link in core.links.values() for entry in link.sent.entries.values()]
        mine = {id(entry): entry for entry in entries if (entry.publisher, entry.incarnation) == me}
        return [entry for entry in mine.values() if entry.source is None]
