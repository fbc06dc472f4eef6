"""How a broker finds its site: the first one gathers the others, and whoever begins another life is taken in again.

A broker asks its parent who is of its site. If that one is of another site and has never heard of this one, it is the
first broker of its site: it waits until the others have asked it, tells all who they are, and stands as leader at once.
After a while a majority of them is enough, and the others are taken in when they come. So sites form from the root
downwards. Later on, whoever is asked knows, and the log of the site decides that the new life takes the place of the
old one. A broker that returns with its disk asks nobody: it knows the others and the log, and proposes its new life.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from resprout.core.contract import Close, Heard, LinkDown, LinkUp, Locate, Retire, SetTimer, Silent, Timer
from resprout.core.errors import PeerError
from resprout.edge.messages import Successor
from resprout.stacks.peers import Outbox, Peer, Peers
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.sites.agreement import Agreement
from resprout_lab.sites.commands import Founding, GivingUp, Seating, SiteBroker, life_of, name_of
from resprout_lab.sites.messages import SiteAnswer, SiteFormed, SiteJoin, SiteMember
from resprout_lab.sites.options import SitesOptions

SEEK_US: Final = 1_000_000
"""Whoever is asked may not know yet, or not be there: after so long another one is asked, and the parent again."""


FORM_US: Final = 2_000_000
"""After this, the first broker of a site forms it with those that are there, if they are a majority."""


class FormDue(Timer, frozen=True):
    """When to form a site of which not all brokers have come."""


class _SiteRecord(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """On the disk of a broker, first and with every snapshot: which member it is, and how its site was formed. Records
    of its ledger have other tags."""

    birth: int
    formed: SiteFormed | None


_TAG: Final = b"\0"
"""Behind the head of the array."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_SiteRecord).decode


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
        self.site: Final = site
        self._needed = options.replicas if seat.site else 1
        self._return_us = options.return_us
        self._step = step
        self._outbox = outbox
        self._agreement = agreement
        self.peers = Peers(step, outbox)
        self._own = SiteBroker(seat.name, seat.incarnation, seat.address, seat.incarnation)
        self._births: dict[str, tuple[int, int]] = {}
        """Broker of this site -> life in whose session it said so, and its birth."""
        self._is_form_due = False
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
        self._outbox.send(event.peer, SiteMember(self.site, self._own.birth))
        if event.peer in (self._asked or ()) or (event.peer in self._called and not self.is_seated):
            self._outbox.send(event.peer, self._joining)

    def hear_member(self, peer: Peer, message: SiteMember) -> None:
        if message.site == self.site:
            self._births[peer.name] = (peer.incarnation, message.birth)
            self._agreement.session_began(peer.name)

    def member_of(self, name: str) -> str | None:
        """Which member of the log there is a session with, of the brokers with this name."""
        peer, (incarnation, birth) = self.peers.find(name), self._births.get(name, (0, 0))
        return life_of(name, birth) if peer is not None and peer.incarnation == incarnation else None

    @property
    def _joining(self) -> SiteJoin:
        return SiteJoin(self.site, self._seat.address, self._own.birth)

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
            self._outbox.send(name, self._joining)
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
            has = f"the site {self.site} has its {len(names)} brokers, {', '.join(names)}"
            self._step.note("note", f"there is no place for {self._seat.name}: {has}")
        elif message.brokers:
            self._end_seeking(names)
            self._agreement.begin((), identity=_encode(_SiteRecord(self._own.birth, None)))
            for broker in message.brokers:
                if broker.name != self._seat.name:
                    self._call(broker)
                    if self.peers.find(broker.name) is not None:
                        self._outbox.send(broker.name, self._joining)
        elif peer.name == self._seat.parent and message.site != self.site:
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
        self._step.out.append(SetTimer(FormDue(), self._step.now_us + FORM_US))
        self._form()

    def form_due(self, timer: FormDue) -> None:
        self._is_form_due = True
        self._form()

    def _form(self) -> None:
        gathered, formed = self._gathered, self._formed
        if gathered is None or formed is None:
            return
        if len(gathered) < self._needed and not (self._is_form_due and 2 * len(gathered) > self._needed):
            return
        self._gathered = None
        self._begin(SiteFormed(tuple(gathered.values()), formed.parent_site, formed.above), stands=True)

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
        identity = _encode(_SiteRecord(self._own.birth, formed))
        self._agreement.begin([broker.member for broker in formed.brokers], stands, identity)

    # -- returning with a disk -----------------------------------------------------------------------------------------

    def recover(self, records: Sequence[bytes]) -> None:
        """Go on as the member that wrote these, or end this life: who forgot its promises is another member."""
        try:
            identity = next((one for one in records if one[1:2] == _TAG), b"")
            record = _decode(identity)
            own = msgspec.structs.replace(self._own, birth=record.birth)
            self._end_seeking(())
            self._gathered, self._formed, self._own = None, record.formed, own
            self._agreement.member = own.member
            first = record.formed.brokers if record.formed is not None else ()
            members = [broker.member for broker in first]
            ledger = [one for one in records if one != identity]
            self._agreement.begin(members, identity=identity, records=ledger)
        except (msgspec.MsgspecError, ValueError) as error:
            reason = f"what {self._seat.name} has on disk cannot be read: {error}"
            self._step.end_life(Retire(reason, again=False))
            return
        for broker in self._agreement.state.brokers.values() or first:
            if broker.name != self._seat.name:
                self._call(broker)
        self._step.note("note", f"recovered as {own.member} of the site {self.site}")

    # -- answering, and what a leader has to see to; at the end of each step -------------------------------------------

    def joins(self, peer: Peer, message: SiteJoin) -> None:
        self._asking[peer.name] = message
        if message.address:
            self._step.out.append(Locate(peer.name, message.address))

    def answer(self) -> None:
        self._seat_own()
        if not self._asking:
            return
        state = self._agreement.state
        own = tuple(state.brokers.values())
        for name, message in list(self._asking.items()):
            peer = self.peers.find(name)
            if peer is None:
                del self._asking[name]
            elif self.is_seated:
                broker = SiteBroker(name, peer.incarnation, message.address, message.birth)
                if message.site == self.site and name not in state.brokers and len(own) < self._needed:
                    self._agreement.propose(Seating(broker))  # and it is answered when it has its place
                    continue
                del self._asking[name]
                if message.site == self.site:
                    self._outbox.send(name, SiteAnswer(own, self.site, own))
                    self._seat_again(broker)
                else:
                    link = state.links.get(message.site)
                    self._outbox.send(name, SiteAnswer(link.brokers if link is not None else (), self.site, own))
            elif self._gathered is not None and message.site == self.site:
                del self._asking[name]
                self._gathered[name] = SiteBroker(name, peer.incarnation, message.address, message.birth)
        self._form()

    def _seat_again(self, broker: SiteBroker) -> None:
        before = self._agreement.state.brokers.get(broker.name)
        if before is None:
            self.cut_off(broker.name, f"the site {self.site!r} has other brokers than {broker.name!r}")
        elif before.incarnation < broker.incarnation:
            self._agreement.propose(Seating(broker))

    def _seat_own(self) -> None:
        """By a broker that returned with its disk: its new life, as soon as the site is known to have been founded."""
        before = self._agreement.state.brokers.get(self._seat.name)
        if before is not None and before.incarnation < self._own.incarnation and before.member == self._own.member:
            self._agreement.propose(Seating(self._own))

    def lead(self) -> None:
        """As the leader of the site: found it, and have its latest lives as members."""
        agreement = self._agreement
        if not agreement.is_leading:
            return
        state = agreement.state
        if not state.brokers:
            if self._formed is not None:
                formed = self._formed
                agreement.propose(Founding(formed.brokers, formed.parent_site, formed.above))
        elif set(state.members) != set(agreement.members):
            agreement.configure(state.members)

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
