"""The clients of one broker: whom it serves and who is sent on, what they publish, and those of dead brokers.

A client that lost its broker is served where it is expected: by whoever led that broker's repair. While the repair is
not complete it waits, because what it saw there may not have arrived here yet. The clients of a dead broker are stood
in for (`edge.broker.ghosts`): what they may have missed is kept until they come and say how far they got, or for a
while.

A client publishes through one queue: what a total holds waits in it, and everything behind that waits too. A
publication is `safe` when a neighbour has it, and `delivered` when it is stable.
"""

from resprout.core.contract import CancelTimer, SetTimer, Timer
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.answering import Answering
from resprout.edge.broker.ghosts import GhostOver, Ghosts, home_of
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, Publish, Successor
from resprout.filters.predicate import Predicate
from resprout.overlay.places import Life
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.messages import TotalRequest
from resprout_lab.ginger.totals import GingerTotals
from resprout_lab.ginger.window import WindowEntry, id_of


class AttendDue(Timer, frozen=True):
    """When to send a client back to its broker, which seems to live."""

    client: str


class SettleDue(Timer, frozen=True):
    """When what a client published through others, and has left no trace here, counts as delivered: nobody keeps
    anything for clients of the dead for longer."""

    client: str


class GingerClients:
    def __init__(self, core: GingerCore, totals: GingerTotals, incarnation: int = 1) -> None:
        self._core = core
        self._totals = totals
        self._me = Life(core.name, incarnation)
        self._ghosts = Ghosts(core.sessions, core, core.wishes, core.wishes.table.index)
        self._answering = Answering(core.sessions, core.seen.mark)

    # -- coming and going ----------------------------------------------------------------------------------------------

    def door(self, session: ClientSession, attend: Attend, waited_us: int) -> bool | Successor:
        """Those are served whose former broker is dead, or who had none; one that lives gets its clients back."""
        core = self._core
        is_expected = core.name in attend.tried or bool(self._standing_in(attend))
        near = [tried for tried in reversed(attend.tried) if tried in core.links]
        if is_expected or not near:
            leader = None if is_expected or not attend.subscriptions else core.view.leader_of(attend.tried)
            return True if leader is None else core.view.contact(leader)
        left_us = 2 * core.options.timer_us - waited_us
        if left_us > 0:
            core.out.append(SetTimer(AttendDue(session.name), core.now_us + left_us))
            return False
        alive = next((tried for tried in near if tried not in core.broken), None)
        return False if alive is None else core.view.contact(alive)

    def serve(self, session: ClientSession, attend: Attend) -> None:
        core = self._core
        core.clock = max(core.clock, attend.clock)
        ghosts = self._standing_in(attend)
        resumed = not attend.subscriptions or bool(ghosts)
        core.sessions.welcome(session, attend, core.view.successors, resumed, core.out)
        if attend.tried:
            core.out.append(CancelTimer(AttendDue(session.name)))
            self._answer_for(session, bool(ghosts) or home_of(attend) == self._me)
        if resumed and attend.subscriptions:
            self._ghosts.claim(session, attend, ghosts, core.out)
            core.sessions.let_read(session, attend, core.held_back)
        self._ghosts.unawait(session.name)
        for ghost in self._ghosts.take_idle():
            self.dismiss(GhostOver(ghost))
        core.view.is_stale = True

    def _answer_for(self, session: ClientSession, is_certain: bool) -> None:
        """What it published through other brokers, or in another session. `is_certain`: whatever is not kept here is
        stable, because this broker has kept all of it, or has led the repair of the one that did."""
        core = self._core
        mine = [entry for entry in core.log.values() if core.sessions.publisher_of(entry.bundle) is session]
        due_us = core.now_us + core.options.client_timer_us
        self._answering.adopt(session, mine, None if is_certain else due_us)
        if not is_certain:
            core.out.append(SetTimer(SettleDue(session.name), due_us))

    def settle(self, timer: SettleDue) -> None:
        self._answering.settle(self._core.now_us)

    def leave(self, name: str) -> None:
        """Nothing is owed to it any more."""
        core = self._core
        core.out.extend((CancelTimer(AttendDue(name)), CancelTimer(SettleDue(name))))
        self._answering.leave(name)
        core.forget(name)
        core.view.is_stale = True

    # -- clients of the dead -------------------------------------------------------------------------------------------

    def expect(self, broker: Life, clients: tuple[str, ...], predicates: tuple[Predicate, ...]) -> None:
        """A broker died. What was wanted in its direction stays wanted for its clients."""
        core = self._core
        ghost = f"~{broker.name}.{broker.incarnation}"
        if ghost not in self._ghosts:
            self._ghosts.add(ghost, frozenset((broker,)), predicates, core.out, clients)
            core.out.append(SetTimer(GhostOver(ghost), core.now_us + core.options.client_timer_us))

    def keep_for_ghosts(self, entry: WindowEntry) -> None:
        """The clients of a dead broker may want it."""
        for ghost in self._ghosts:
            self._ghosts.read(ghost, entry)

    def keep_old_for_ghosts(self, entry: WindowEntry) -> None:
        """Nobody here wanted it when it passed, but they may."""
        entry.shown = True
        self.keep_for_ghosts(entry)
        if entry.readers:
            self._core.log[entry.id] = entry

    def dismiss(self, timer: GhostOver) -> None:
        core = self._core
        if timer.ghost in self._ghosts:
            self._ghosts.expire(timer.ghost, core.out)
            core.out.append(CancelTimer(timer))

    def _standing_in(self, attend: Attend) -> list[str]:
        return [ghost for tried in attend.tried for ghost in self._ghosts.named(tried)]

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, session: ClientSession, message: Publish) -> None:
        if message.bundle.guarantee is Guarantee.EVENTUAL and not self._core.options.eventual_waits:
            self._publish_now(session, message)
        else:
            session.waiting.append(message)
            self.drain(session)

    def drain(self, session: ClientSession) -> None:
        """As much of its queue as no total holds."""
        while session.waiting:
            bundle = session.waiting[0].bundle
            if bundle.guarantee is not Guarantee.TOTAL and self._totals.has_of(session.name):
                return
            if bundle.guarantee in (Guarantee.FIFO, Guarantee.CAUSAL) and self._totals.holds(bundle):
                return
            self._publish_now(session, session.waiting.popleft())

    def drain_all(self) -> None:
        for session in self._core.sessions.all.values():
            if session.waiting:
                self.drain(session)

    def _publish_now(self, session: ClientSession, message: Publish) -> None:
        core = self._core
        bundle = message.bundle
        if core.seen.has(bundle):  # it came through another broker before
            core.sessions.known(session, bundle, everywhere=self._answering.is_settled(session))
            return
        if self._totals.knows(id_of(bundle)):
            return
        core.charged[id_of(bundle)] = None
        core.charge(session.name, bundle.count)
        core.clock += 1
        stamped = bundle.stamped(core.clock)
        if bundle.guarantee is Guarantee.TOTAL:
            self._totals.request(TotalRequest(stamped, 0, message.prompt))
        else:
            core.take_in_new(WindowEntry(stamped, 0, None, message.prompt))
