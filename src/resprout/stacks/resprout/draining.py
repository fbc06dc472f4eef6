"""How a broker goes: first it hands over what it can, then it tells everybody, then it ends.

From the moment it is asked it takes nobody and nothing new: newcomers and clients without a broker are sent elsewhere,
and what local clients publish stays unread, so that they say it again where they go. It waits until the tree around it
is whole and every neighbour has answered a call, until everything that it has accepted from a client is safe with
others, until nobody is being given a place below it, and until those clients of a dead broker have come that it keeps
something for. Then its neighbours hear how far its durable subscriptions have come, its clients hear whom to turn to,
its neighbours hear that it goes, and whoever is its authority closes the gap at once. If that moment does not come in
time, it goes without.

Copies that others rely on count until it is gone: between its last word and the end of the repair it is one of the f
that may be missing. Who is alone has nobody to hand anything to, and says what is lost.
"""

from typing import Final

from resprout.core.contract import Send, SetTimer, Timer
from resprout.edge.broker.ghosts import Ghosts
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import GoTo
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.totals.totals import Totals, TotalsState
from resprout.overlay.council import Council
from resprout.overlay.messages import Probe, Probed
from resprout.stacks.peers import Outbox, Peer, Peers
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.durables import Durables
from resprout.stacks.resprout.joining.admission import Admission
from resprout.stacks.resprout.joining.claims import Claims
from resprout.stacks.resprout.joining.offers import CALL
from resprout.stacks.resprout.life import BrokerLife, LifeState
from resprout.stacks.resprout.messages import Leaving
from resprout.stacks.resprout.neighbours import Copies
from resprout.stacks.resprout.speaking import Speaking

FAREWELL: Final = CALL + 2
"""The number of its probes, next to those of `joining.offers`."""


class DrainOver(Timer, frozen=True):
    """When to go, whatever is not handed over."""


class Draining:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        outbox: Outbox,
        links: dict[str, Link],
        log: Log,
        sessions: ClientSessions,
        totals: Totals,
        disk: DiskLog | None,
        copies: Copies,
        council: Council,
        claims: Claims,
        admission: Admission,
        ghosts: Ghosts,
        speaking: Speaking,
        durables: Durables,
    ) -> None:
        self._life = life
        self._peers = peers
        self._outbox = outbox
        self._links = links
        self._log = log
        self._sessions = sessions
        self._totals = totals
        self._disk = disk
        self._copies = copies
        self._council = council
        self._claims = claims
        self._admission = admission
        self._ghosts = ghosts
        self._speaking = speaking
        self._durables = durables
        self.asked: list[int] = []
        """When this broker was asked to go, if it was: a step ends with a look at whether it may."""
        self._answered: dict[str, bool] = {}
        """Neighbours that were called since then."""

    def begin(self, within_us: int) -> None:
        """Asked once more, it goes at once."""
        life = self._life
        if self.asked or not within_us or not life.attached or life.reviving:
            self._go()
            return
        self.asked.append(life.now_us)
        life.move_to(LifeState.LEAVING)
        self._admission.admit()  # those who ask for a place here are sent elsewhere
        life.out.append(SetTimer(DrainOver(), life.now_us + within_us))

    def over(self, timer: DrainOver) -> None:
        """The time is up."""
        life = self._life
        life.note(
            "undrained", f"the time is over, and {self._hindrance() or 'nothing'} is still waited for: it goes without"
        )
        self._go()

    def told(self, peer: Peer, message: Leaving) -> None:
        """Another broker goes: its life is certainly over. Whoever votes about the root must know, neighbour or not."""
        life = self._life
        if peer.incarnation == life.view.incarnation_of(peer.name):
            self._council.silent(peer.name, True, life.now_us)

    def probed(self, peer: Peer, message: Probed) -> None:
        if message.number == FAREWELL and peer.name in self._answered:
            self._answered[peer.name] = True

    def check(self) -> None:
        for name in self._links:
            if name not in self._answered:
                self._answered[name] = False
                self._peers.post(name, Probe(FAREWELL))
        if self._hindrance() is None:
            self._go()

    def _hindrance(self) -> str | None:
        """What it has to wait for; None when it may go."""
        life = self._life
        if not self._links:
            return None
        if not life.is_calm:
            return "a repair next to it"
        silent = [name for name in self._links if not self._answered.get(name)]
        if silent:  # it may be dead, and nobody has noticed yet
            return f"a sign of life of {silent[0]}"
        if self._claims.admitted:
            return "a newcomer"
        if self._ghosts.lives():
            return "clients of a broker that is gone"
        if any(map(self._is_unsafe, self._log.held_back)) or any(
            map(self._copies.is_only_here, self._log.entries.values())
        ):
            return "a publication that no other broker has"
        backlog = self._totals.backlog
        if self._totals.state is not TotalsState.RUNNING or any(backlog.has_any(name) for name in self._sessions.all):
            return "the place of a total"
        return None

    def _is_unsafe(self, entry: Entry) -> bool:
        return entry.source is None and not entry.is_backup and not self._log.is_safe(entry)

    def _go(self) -> None:
        life = self._life
        if life.state is LifeState.PLACED:
            life.move_to(LifeState.LEAVING)
        successors = life.successors()
        self._sessions.flush_all(life.out)
        self._durables.tell_progress()
        self._speaking.say_all()
        if successors:
            message = GoTo(successors[0])
            life.out.extend([Send(session.name, message) for session in self._sessions.all.values() if session.asked])
            clients = sum(session.asked and not session.is_internal for session in self._sessions.all.values())
            life.note(
                "drain", f"{clients} clients and {len(self._links)} neighbours are handed over to {successors[0].name}"
            )
        elif lost := self._unread():
            where = "are kept on its disk" if self._disk is not None else "are lost"
            life.note("undrained", f"no broker is left to take over: {lost} unread publications {where}")
        for name in dict.fromkeys((*self._links, *self._council.standby())):
            self._outbox.pass_by(name, Leaving())
        life.retire(f"{life.seat.name} leaves", again=False)

    def _unread(self) -> int:
        owed = sum(entry.last - entry.first + 1 for entry in self._log.entries.values() if entry.undone)
        return owed + sum(
            publish.bundle.count for session in self._sessions.all.values() for publish in session.waiting
        )
