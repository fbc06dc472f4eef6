"""The coordinator's part in a repair, until everybody is in: the broker above the dead asks everybody around them for
what was on its way. What it makes of that is in `finish`. One round trip, then links are plain again.

Beside it the dead are registered (`overlay.council`), so that no other repair of the same piece can end as well (I6).
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from resprout.core.states import transition
from resprout.edge.broker.ghosts import Ghosts
from resprout.order.link import Link
from resprout.overlay.council import Council
from resprout.overlay.messages import Fenced
from resprout.overlay.places import Life
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import Attach, AttachRequest, NotMember
from resprout.stacks.resprout.repair.finish import FinishRepair
from resprout.stacks.resprout.repair.parcels import Parcel, learn


class CoordinatorState(Enum):
    """How far a repair has come at its coordinator."""

    COLLECTING = auto()
    """Members are asked, and the dead are registered; whoever is found dead joins the piece."""
    FINISHING = auto()
    """All is here: the pool is being taken, in one step."""
    DONE = auto()


COORDINATOR_STATES: Final[Mapping[CoordinatorState, frozenset[CoordinatorState]]] = {
    CoordinatorState.COLLECTING: frozenset({CoordinatorState.FINISHING}),
    CoordinatorState.FINISHING: frozenset({CoordinatorState.DONE}),
    CoordinatorState.DONE: frozenset(),
}


class LedRepair:
    """One repair that this broker leads."""

    def __init__(self, token: int) -> None:
        self.token = token
        self.state = CoordinatorState.COLLECTING
        self.dead: dict[str, Life] = {}
        self.asked: dict[str, int] = {}
        """Members, and when they were asked."""
        self.got: dict[str, tuple[int, Parcel]] = {}
        """Members that have attached: their incarnation, and what they brought."""
        self.others: dict[str, None] = {}
        """Asked, and no members after all."""

    def move_to(self, state: CoordinatorState) -> None:
        self.state = transition(COORDINATOR_STATES, self.state, state)


class Coordinator:
    """Of one repair at a time: whoever dies meanwhile joins its piece."""

    def __init__(
        self,
        core: Core,
        council: Council,
        ghosts: Ghosts,
        book: ClientBook,
    ) -> None:
        self._core = core
        self._council = council
        self._finish = FinishRepair(core, ghosts, book)
        self._book = book
        self._tokens = 0
        self.current: LedRepair | None = None

    # -- collecting ----------------------------------------------------------------------------------------------------

    def declared(self, names: Iterable[str]) -> None:
        """This broker is the authority over them: they are dead."""
        core = self._core
        names = list(names)
        for name in names:
            core.neighbours.mark_dead(core.view.life(name))
        if self.current is None:
            self._tokens += 1
            self.current = LedRepair(core.now_us * 1_000 + self._tokens % 1_000)
            core.leading = True
        for name in names:
            self.current.dead[name] = core.view.life(name)
        self.check()

    def declare_dead_children(self) -> None:
        """Somebody else declared a child dead, which had been theirs when it asked for a place here."""
        core = self._core
        tombstones = core.view.tombstones
        for name, link in list(core.links.items()):
            if link.open and name != core.view.parent and link.incarnation <= tombstones.get(name, -1):
                self.declared((name,))

    def check(self) -> None:
        """Ask who has not been asked, and finish when everybody is in."""
        core, repair = self._core, self.current
        if repair is None or core.retired:
            return
        for name in list(repair.dead):
            for other in core.view.component(name):
                if other not in repair.dead:
                    repair.dead[other] = core.view.life(other)
                    core.neighbours.mark_dead(repair.dead[other])
        members = [name for name in core.view.members(repair.dead) if name not in repair.others]
        for name in members:
            if name not in repair.asked:
                repair.asked[name] = core.now_us
                self._ask(repair, name)
        if not self._council.register(frozenset(repair.dead), core.now_us):
            return
        if self.current is repair and all(self._is_in(repair, name) for name in members):
            self.current = None
            core.leading = False
            self._council.drop_registration()
            repair.move_to(CoordinatorState.FINISHING)
            self._finish.run(repair, members)
            repair.move_to(CoordinatorState.DONE)

    def _ask(self, repair: LedRepair, name: str) -> None:
        self._core.peers.post(name, AttachRequest(repair.token, tuple(repair.dead.values())))

    def met(self, name: str) -> None:
        """A session begins. What was said in the one before may be lost with it, so whoever has not answered is asked
        again."""
        if self.current is not None and self.awaits(name) and self._stands(name):
            self._ask(self.current, name)

    def _stands(self, name: str) -> bool:
        """It is the life that has the place: a later one knows nothing of it, and the one asked is over."""
        return self._core.peers.incarnation(name) == self._core.view.incarnation_of(name)

    def _is_in(self, repair: LedRepair, name: str) -> bool:
        return name in repair.got and repair.got[name][0] == self._core.peers.incarnation(name)

    def tick(self) -> None:
        """Members that do not answer may be dead, too."""
        repair, core = self.current, self._core
        if repair is None:
            return
        for name, asked_us in list(repair.asked.items()):
            missing = name not in repair.got and name not in repair.others and not core.view.is_dead(name)
            if missing and self._council.overdue(name, asked_us, core.now_us):
                self.declared([name])
                if self.current is not repair:
                    return
        self.check()

    @property
    def members(self) -> list[str]:
        """Brokers that the running repair needs a session with until it ends, so that nobody closes it as idle."""
        repair = self.current
        return [] if repair is None else [name for name in repair.asked if name not in repair.others]

    def awaits(self, name: str) -> bool:
        """It was asked and has not answered."""
        repair = self.current
        return repair is not None and name in repair.asked and name not in repair.got and name not in repair.others

    def attached(self, peer: str, incarnation: int, parcel: Parcel) -> None:
        core, repair = self._core, self.current
        head: Attach = parcel.head
        if core.view.is_dead_speaker(peer):
            core.peers.post(peer, Fenced(core.view.tombstones[peer]))
            return
        if repair is None or head.token != repair.token or peer not in repair.asked:
            return  # nobody asked for it, or only an earlier repair did
        believed = self._council.believed_deaths
        parcel.tombstones = list(believed(peer, parcel.tombstones, core.now_us))
        learn(core, parcel)
        self._book.roll.learn(parcel.clients)
        for life in believed(peer, head.dead, core.now_us):
            if life.name not in repair.dead:
                core.neighbours.mark_dead(life)
                repair.dead[life.name] = life
        repair.got[peer] = (incarnation, parcel)
        self.check()

    def not_member(self, peer: str, message: NotMember) -> None:
        repair = self.current
        if repair is None or message.token != repair.token:
            return
        if self._council.has_ended(peer) and not self._core.view.is_dead(peer):
            self.declared([peer])  # a later life says so, which knows nothing: the one that stood there is dead, too
        elif self._stands(peer):
            repair.others[peer] = None
            self.check()

    def unlink(self, link: Link) -> None:
        """A link on which nobody ever spoke goes without a repair: nobody is behind it, and nobody is dead."""
        self._tokens += 1
        repair = LedRepair(self._core.now_us * 1_000 + self._tokens % 1_000)
        repair.dead[link.name] = Life(link.name, link.incarnation)
        self._core.neighbours.shut(link)
        self._core.peers.close(link.name, "it went elsewhere")
        self._core.waves.unwait(link.name)
        repair.move_to(CoordinatorState.FINISHING)
        self._finish.run(repair, [])
        repair.move_to(CoordinatorState.DONE)
