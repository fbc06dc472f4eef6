"""The coordinator's part in a repair until all members have attached. The coordinator is the broker above the dead. It
asks every living broker around them (the members) for what was on its way through the dead. When all have answered,
`finish` replaces the dead by links to the members, in one step. All of it takes one round trip.

In parallel the dead are registered (`overlay.council`), so that no other repair of the same brokers can end as well
(I6).
"""

from collections.abc import Iterable

from resprout.order.link import Link
from resprout.overlay.council import Council
from resprout.overlay.messages import Fenced, Life
from resprout.overlay.waves import Waves
from resprout.stacks.peers import Peer, Peers
from resprout.stacks.resprout.client_book import Roll
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import Attach, AttachRequest, NotMember
from resprout.stacks.resprout.neighbours import Neighbours
from resprout.stacks.resprout.repair.finish import AskedBroker, CoordinatorState, FinishRepair, LedRepair, MemberAnswer
from resprout.stacks.resprout.repair.parcels import Parcel, learn


class Coordinator:
    """Collects what the members of one repair bring. There is one repair at a time: a broker that dies meanwhile
    joins its piece."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        waves: Waves,
        links: dict[str, Link],
        neighbours: Neighbours,
        council: Council,
        roll: Roll,
        finish: FinishRepair,
    ) -> None:
        self._life = life
        self._peers = peers
        self._waves = waves
        self._links = links
        self._neighbours = neighbours
        self._council = council
        self._roll = roll
        self._finish = finish
        self._tokens = 0
        """Repairs that this broker has led."""
        self.current: LedRepair | None = None
        """The repair that this broker leads; None if it leads none, or has begun its last step."""

    # -- collecting ----------------------------------------------------------------------------------------------------

    def declared(self, names: Iterable[str]) -> None:
        """Begin or extend the repair: this broker, as the authority, has declared these dead."""
        life = self._life
        names = list(names)
        for name in names:
            self._neighbours.mark_dead(life.view.life(name))
        if self.current is None:
            self._tokens += 1
            self.current = LedRepair(life.now_us * 1_000 + self._tokens % 1_000)
            life.leading = True
        for name in names:
            self.current.dead[name] = life.view.life(name)
        self.check()

    def declare_dead_children(self) -> None:
        """Take over the repair of children that another broker declared dead, as their former authority."""
        life = self._life
        tombstones = life.view.tombstones
        for name, link in list(self._links.items()):
            if link.open and name != life.view.parent and link.incarnation <= tombstones.get(name, -1):
                self.declared((name,))

    def check(self) -> None:
        """Add dead brokers next to the dead to the repair, ask members that were not asked yet, and finish when all
        have attached and the dead are registered. Called whenever one of these may have changed."""
        life, repair = self._life, self.current
        if repair is None or life.retired:
            return
        for name in list(repair.dead):
            for other in life.view.component(name):
                if other not in repair.dead:
                    repair.dead[other] = life.view.life(other)
                    self._neighbours.mark_dead(repair.dead[other])
        around = life.view.members(repair.dead)
        for name in around:
            if name not in repair.asked:
                repair.asked[name] = AskedBroker(life.now_us)
                self._ask(repair, name)
        members = [name for name in around if repair.asked[name].answer is not MemberAnswer.NOT_MEMBER]
        if not self._council.register(frozenset(repair.dead), life.now_us):
            return
        if self.current is repair and all(self._has_attached(repair, name) for name in members):
            self.current = None
            life.leading = False
            self._council.drop_registration()
            repair.move_to(CoordinatorState.FINISHING)
            self._finish.run(repair, members)
            repair.move_to(CoordinatorState.DONE)

    def _ask(self, repair: LedRepair, name: str) -> None:
        self._peers.post(name, AttachRequest(repair.token, tuple(repair.dead.values())))

    def met(self, name: str) -> None:
        """Ask again a member that has not answered: its last session, and perhaps the question, is lost."""
        if self.current is not None and self.awaits(name) and self._stands(name):
            self._ask(self.current, name)

    def _stands(self, name: str) -> bool:
        """Whether the session with this broker is with the life that has its place in the tree. A later life knows
        nothing of the dead link."""
        return self._peers.incarnation(name) == self._life.view.incarnation_of(name)

    def _has_attached(self, repair: LedRepair, name: str) -> bool:
        """Whether this member's parcel is here, and its session is still with the life that sent it."""
        one = repair.asked[name]
        return one.answer is MemberAnswer.ATTACHED and one.incarnation == self._peers.incarnation(name)

    def tick(self) -> None:
        """Declare members dead that do not answer, where the council allows it."""
        repair, life = self.current, self._life
        if repair is None:
            return
        for name, one in list(repair.asked.items()):
            missing = one.answer is MemberAnswer.AWAITED and not life.view.is_dead(name)
            if missing and self._council.overdue(name, one.asked_us, life.now_us):
                self.declared([name])
                if self.current is not repair:
                    return
        self.check()

    @property
    def members(self) -> list[str]:
        """Brokers to keep sessions with until the running repair ends."""
        asked = self.current.asked if self.current is not None else {}
        return [name for name, one in asked.items() if one.answer is not MemberAnswer.NOT_MEMBER]

    def awaits(self, name: str) -> bool:
        """Whether this broker was asked to attach and has not answered."""
        one = self.current.asked.get(name) if self.current is not None else None
        return one is not None and one.answer is MemberAnswer.AWAITED

    def attached(self, peer: Peer, parcel: Parcel) -> None:
        """Take a member's complete parcel."""
        life, repair, name = self._life, self.current, peer.name
        head: Attach = parcel.head
        if life.view.is_dead_speaker(name):
            self._peers.post(name, Fenced(life.view.tombstones[name]))
            return
        if repair is None or head.token != repair.token or name not in repair.asked:
            return  # it belongs to an earlier repair, or to none
        believed = self._council.believed_deaths
        parcel.tombstones = list(believed(name, parcel.tombstones, life.now_us))
        learn(life, parcel)
        self._roll.learn(parcel.clients)
        for dead in believed(name, head.dead, life.now_us):
            if dead.name not in repair.dead:
                self._neighbours.mark_dead(dead)
                repair.dead[dead.name] = dead
        one = repair.asked[name]
        if one.answer is not MemberAnswer.NOT_MEMBER:
            one.answer, one.incarnation, one.parcel = MemberAnswer.ATTACHED, peer.incarnation, parcel
        self.check()

    def not_member(self, peer: Peer, message: NotMember) -> None:
        """A broker says that it has no link to the dead."""
        repair, name = self.current, peer.name
        if repair is None or message.token != repair.token:
            return
        if self._council.has_ended(name) and not self._life.view.is_dead(name):
            self.declared([name])  # a later life answers, which knows nothing: the life with the place is dead, too
        elif self._stands(name) and name in repair.asked:
            repair.asked[name].answer = MemberAnswer.NOT_MEMBER
            self.check()

    def unlink(self, link: Link) -> None:
        """Remove a link on which the neighbour never spoke, without a repair: it never took its place, and nobody is
        behind it."""
        self._tokens += 1
        repair = LedRepair(self._life.now_us * 1_000 + self._tokens % 1_000)
        repair.dead[link.name] = Life(link.name, link.incarnation)
        self._neighbours.shut(link)
        self._peers.close(link.name, "it went elsewhere")
        self._waves.unwait(link.name)
        repair.move_to(CoordinatorState.FINISHING)
        self._finish.run(repair, [])
        repair.move_to(CoordinatorState.DONE)
