"""How a broker finds its site: the first one gathers the others, and whoever begins another life is taken in again.

A broker asks its parent who is of its site. If that one is of another site and has never heard of this one, it is the
first broker of its site: it waits until the others have asked it, tells all who they are, and stands as leader at once.
So sites form from the root downwards, and for that time nobody may die. Later on, whoever is asked knows, and the log
of the site decides that the new life takes the place of the old one.
"""

from collections.abc import Collection
from typing import Final

from resprout.core.contract import Close, Heard, LinkDown, LinkUp, Locate, SetTimer, Silent, Timer
from resprout.core.errors import PeerError
from resprout.edge.messages import Successor
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.peers import Peer, Peers
from resprout.stacks.shell.step import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.sites.agreement import Agreement
from resprout_lab.sites.commands import Founding, GivingUp, Seating, SiteBroker, name_of
from resprout_lab.sites.messages import SiteAnswer, SiteFormed, SiteJoin
from resprout_lab.sites.options import SitesOptions

SEEK_US: Final = 1_000_000
"""Whoever is asked may not know yet, or not be there: after so long another one is asked, and the parent again."""


class SeekDue(Timer, frozen=True):
    """When to ask one more for the brokers of the site."""

    @property
    def background(self) -> bool:
        return True


class LifeOverDue(Timer, frozen=True):
    """When to stop keeping anything for the clients of a broker that is gone."""

    life: str

    @property
    def background(self) -> bool:
        return True


class SiteForming:
    def __init__(
        self, seat: BrokerSeat, site: str, options: SitesOptions, step: Step, outbox: Outbox, agreement: Agreement
    ) -> None:
        self._seat = seat
        self._site = site
        self._needed = options.replicas if seat.site else 1
        self._return_us = options.return_us
        self._step = step
        self._outbox = outbox
        self._agreement = agreement
        self.peers = Peers(step, outbox)
        self._own = SiteBroker(seat.name, seat.incarnation, seat.address)
        above = () if seat.parent is None else (seat.parent,)
        self._candidates = list(dict.fromkeys((*above, *seat.contacts)))
        self._asked: dict[str, None] | None = None
        """Who was asked for the brokers of this site; None when they are known, or this is the first one."""
        self._called: dict[str, None] = {}
        """The brokers of the site, as they were named to this one."""
        self._asking: dict[str, SiteJoin] = {}
        """Brokers that wait for an answer."""
        self._gathered: dict[str, SiteBroker] | None = None
        """By the first broker of a site that is not formed."""
        self._formed: SiteFormed | None = None
        self._unheard: dict[str, None] = {}
        """Brokers of this site that are not heard."""

    @property
    def is_seated(self) -> bool:
        """This life is a broker of its site, and all that was decided before that is known here."""
        own = self._agreement.state.brokers.get(self._seat.name)
        return own is not None and own.incarnation == self._seat.incarnation

    @property
    def successors(self) -> tuple[Successor, ...]:
        """Where clients turn when this broker is gone: to the others of its site, the leader first. Where a site is one
        broker they turn to neighbouring sites, and are told that they may have missed something."""
        state = self._agreement.state
        others = [broker for broker in state.brokers.values() if broker.name != self._seat.name]
        others.sort(key=lambda broker: broker.life != state.leader)
        if not others:
            others = [broker for link in state.links.values() for broker in link.brokers]
        return tuple([Successor(broker.name, broker.address) for broker in others])

    def is_unheard(self, name: str) -> bool:
        return name in self._unheard

    def begin(self) -> None:
        if self._candidates:
            self._asked = {}
            self._ask_next()
            self._step.out.append(SetTimer(SeekDue(), self._step.now_us + SEEK_US))
        else:
            self._found("", ())

    # -- sessions (`BrokerSessions`) -----------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self.peers.get(name) is not None

    def up(self, event: LinkUp) -> None:
        if self.peers.came_up(event.peer, event.incarnation, event.room) is None:
            self._step.out.append(Close(event.peer, f"{self._seat.name} takes no more brokers"))
            return
        self._unheard.pop(event.peer, None)
        if event.peer in (self._asked or ()) or (event.peer in self._called and not self.is_seated):
            self._outbox.send(event.peer, SiteJoin(self._site, self._seat.address))

    def down(self, event: LinkDown) -> None:
        self.peers.went_down(event.peer)
        self._asking.pop(event.peer, None)
        self._not_heard(event.peer)

    def silent(self, event: Silent) -> None:
        if self._asked is not None and event.peer == self._candidates[-1]:
            self._ask_next()  # the last one that was asked
        self._not_heard(event.peer)

    def heard(self, event: Heard) -> None:
        self._unheard.pop(event.peer, None)

    def cut_off(self, name: str, reason: str) -> None:
        self.peers.close(name, reason)
        self._asking.pop(name, None)
        if self._is_beside(name):
            self.peers.open(name)

    def _not_heard(self, name: str) -> None:
        if self._is_beside(name) and name not in self._unheard:
            self._unheard[name] = None
            self.peers.open(name)  # whoever opened the session may be gone
            self._await(self._agreement.state.brokers[name].life)

    def _is_beside(self, name: str) -> bool:
        """Another broker of this site, as the site has decided."""
        return name in self._agreement.state.brokers and name != self._seat.name

    # -- asking --------------------------------------------------------------------------------------------------------

    def _ask_next(self) -> None:
        self._candidates.append(self._candidates.pop(0))
        self._ask(self._candidates[-1])

    def _ask(self, name: str) -> None:
        assert self._asked is not None, "the site is not known"
        self._asked[name] = None
        if self.peers.find(name) is not None:
            self._outbox.send(name, SiteJoin(self._site, self._seat.address))
        self.peers.open(name)

    def seek(self, timer: SeekDue) -> None:
        if self._asked is not None:
            if self._seat.parent is not None:
                self._ask(self._seat.parent)
            self._ask_next()
            self._step.out.append(SetTimer(SeekDue(), self._step.now_us + SEEK_US))

    def answered(self, peer: Peer, message: SiteAnswer) -> None:
        if self._asked is None:
            return
        names = [broker.name for broker in message.brokers]
        if names and self._seat.name not in names:
            self._end_seeking(names)
            has = f"the site {self._site} has its {len(names)} brokers, {', '.join(names)}"
            self._step.note("note", f"there is no place for {self._seat.name}: {has}")
        elif message.brokers:
            self._end_seeking(names)
            self._agreement.begin(())
            for broker in message.brokers:
                if broker.name != self._seat.name:
                    self._call(broker)
                    if self.peers.find(broker.name) is not None:
                        self._outbox.send(broker.name, SiteJoin(self._site, self._seat.address))
        elif peer.name == self._seat.parent and message.site != self._site:
            self._end_seeking([peer.name])
            self._found(message.site, message.own)

    def _end_seeking(self, needed: Collection[str]) -> None:
        for name in self._asked or ():
            if name not in needed and name not in self._asking:
                self.peers.close(name, "not needed any more")
        self._asked = None

    def is_mate(self, name: str) -> bool:
        """A broker of this site, other than this one."""
        return name in self._called or name in self._agreement.state.brokers

    def _call(self, broker: SiteBroker) -> None:
        self._called[broker.name] = None
        if broker.address:
            self._step.out.append(Locate(broker.name, broker.address))
        self.peers.open(broker.name)

    # -- forming -------------------------------------------------------------------------------------------------------

    def _found(self, parent: str, above: tuple[SiteBroker, ...]) -> None:
        self._gathered = {self._seat.name: self._own}
        self._formed = SiteFormed((), parent, above)
        self._form()

    def _form(self) -> None:
        gathered, formed = self._gathered, self._formed
        if gathered is None or formed is None or len(gathered) < self._needed:
            return
        self._gathered = None
        self._begin(SiteFormed(tuple(gathered.values()), formed.parent, formed.above), stands=True)

    def hear_formed(self, peer: Peer, message: SiteFormed) -> None:
        if self._agreement.replica is not None:
            return
        if self._own not in message.brokers:
            raise PeerError(f"{peer.name} formed a site without this broker")
        self._end_seeking([broker.name for broker in message.brokers])
        self._begin(message, stands=False)

    def _begin(self, formed: SiteFormed, stands: bool) -> None:
        self._formed = formed
        for broker in formed.brokers:
            if broker != self._own:
                self._call(broker)
                if stands:
                    self._outbox.send(broker.name, formed)
        self._agreement.begin([broker.life for broker in formed.brokers], stands)

    # -- answering, and what a leader has to see to; at the end of each step -------------------------------------------

    def joins(self, peer: Peer, message: SiteJoin) -> None:
        self._asking[peer.name] = message
        if message.address:
            self._step.out.append(Locate(peer.name, message.address))

    def answer(self) -> None:
        if not self._asking:
            return
        state = self._agreement.state
        own = tuple(state.brokers.values())
        for name, message in list(self._asking.items()):
            peer = self.peers.find(name)
            if peer is None:
                del self._asking[name]
            elif self.is_seated:
                del self._asking[name]
                if message.site == self._site:
                    self._outbox.send(name, SiteAnswer(own, self._site, own))
                    self._seat_again(SiteBroker(name, peer.incarnation, message.address))
                else:
                    link = state.links.get(message.site)
                    self._outbox.send(name, SiteAnswer(link.brokers if link is not None else (), self._site, own))
            elif self._gathered is not None and message.site == self._site:
                del self._asking[name]
                self._gathered[name] = SiteBroker(name, peer.incarnation, message.address)
        self._form()

    def _seat_again(self, broker: SiteBroker) -> None:
        before = self._agreement.state.brokers.get(broker.name)
        if before is None:
            self.cut_off(broker.name, f"the site {self._site!r} has other brokers than {broker.name!r}")
        elif before.incarnation < broker.incarnation:
            self._agreement.propose(Seating(broker))

    def lead(self) -> None:
        """As the leader of the site: found it, and have its latest lives as members."""
        agreement = self._agreement
        if not agreement.is_leading:
            return
        state = agreement.state
        if not state.brokers:
            if self._formed is not None:
                formed = self._formed
                agreement.propose(Founding(formed.brokers, formed.parent, formed.above))
        elif set(state.lives) != set(agreement.members):
            agreement.configure(state.lives)

    # -- lives that are over -------------------------------------------------------------------------------------------

    def seated(self, broker: SiteBroker) -> None:
        """The log says so: whatever life it had before is over."""
        if broker.name != self._seat.name:
            self._call(broker)
        self.await_old()

    def await_old(self) -> None:
        state = self._agreement.state
        lives = state.lives
        for life in state.floors:
            if life not in lives:
                self._await(life)

    def _await(self, life: str) -> None:
        self._step.out.append(SetTimer(LifeOverDue(life), self._step.now_us + self._return_us))

    def life_over(self, timer: LifeOverDue) -> None:
        state, life = self._agreement.state, timer.life
        if life in state.floors and (life not in state.lives or name_of(life) in self._unheard):
            if self._agreement.is_leading:
                self._agreement.propose(GivingUp(life))
            self._await(life)
