"""Clients of brokers that are lost: who looks after them, as far as this broker has heard (`LostBrokers`), and when it
does so no longer itself (`Dismissing`)."""

from typing import TYPE_CHECKING, Final

from resprout.core.contract import CancelTimer, SetTimer
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.overlay.places import Life
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.joining.claims import Claims

if TYPE_CHECKING:
    from resprout.stacks.resprout.clients import Clients

SUCCEEDED_MAX: Final = 4_096
"""Dead brokers whose successors are remembered; those heard of longest ago are forgotten first."""


class LostBrokers:
    """Dead brokers, and who looks after their clients."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._succeeded_by: dict[str, tuple[str, int]] = {}
        """Dead broker -> who has its ghost, as far as it was heard, and since when."""
        self.began_us = 0
        """When this life of the broker did."""

    def succeeded(self, dead: tuple[str, ...], successor: str) -> None:
        """A repair is over: this one has their ghost."""
        for name in dead:
            self._succeeded_by.pop(name, None)
            self._succeeded_by[name] = (successor, self._core.now_us)
        while len(self._succeeded_by) > SUCCEEDED_MAX:
            del self._succeeded_by[next(iter(self._succeeded_by))]

    def of_life(self, home: Life, waited_us: int) -> str | None:
        """Who looks after the clients of this life; as below. A later one of the name owes them nothing."""
        core = self._core
        keeper = self.keeper_of(home)
        if keeper is not None:
            return keeper
        link = core.links.get(home.name)
        now = link.incarnation if link is not None else core.view.incarnation_of(home.name)
        return self.of(home.name, waited_us) if now <= home.incarnation or home.name == core.seat.name else None

    def keeper_of(self, home: Life) -> str | None:
        """Who says that it looks after the clients of this life."""
        keeper = self._core.kept_by.get(home)
        if keeper not in (None, self._core.seat.name) and self._core.now_us < self._core.kept_until_us:
            return keeper
        places = self._core.view.places.values()
        mine = self._core.seat.name
        keepers = [place.name for place in places if home in place.looks_after and place.name != mine]
        return next((name for name in keepers if not self._core.view.is_dead(name)), None)

    def of(self, lost: str, waited_us: int) -> str | None:
        """Who looks after the clients of a broker that one of them has lost, and has waited here for so long since;
        this broker itself while that is not decided yet, None when nobody does."""
        core = self._core
        view = core.view
        successor = self.latest(lost)
        if successor is not None and successor != core.seat.name:
            return successor
        link = core.links.get(lost)
        if link is not None:
            is_heard = core.peers.is_heard(lost) and core.peers.incarnation(lost) == link.incarnation
            return lost if is_heard and waited_us >= 2 * core.options.heartbeat_us else core.seat.name
        if successor is not None:
            return None
        if lost == core.seat.name:  # with an earlier life of this broker, or it was away for too long
            is_young = core.seat.incarnation > 1 and core.now_us - self.began_us < core.options.ghost_us
            return view.parent if is_young else None
        place = view.places.get(lost)
        if place is None:
            return None
        above = place.parent if place.parent is not None else view.configuration.root
        if above not in (core.seat.name, lost):
            return above
        lives = waited_us >= 2 * core.options.lease_us  # or it would have been declared by now
        return lost if lives else core.seat.name

    def latest(self, name: str) -> str | None:
        """Successors die, too, and then have successors. What they keep they do not keep for ever."""
        successor: str | None = None
        oldest_us = self._core.now_us - self._core.options.ghost_us
        for _ in range(len(self._succeeded_by)):
            following, since_us = self._succeeded_by.get(successor or name, ("", 0))
            if not following or since_us < oldest_us or following == name:
                break
            successor = following
        return successor


class Dismissing:
    """The end of ghosts: clients of a dead broker that are not waited for any more.

    `ghost_us` counts only while clients can be served: not while this broker repairs the tree, nor while what the
    repair brought is on its way to the members or is not safe yet. Each time that hinders them, it begins again: they
    look for a place elsewhere meanwhile, and need the time to come back. A client that is connected and waits keeps its
    ghost for as long as its session lasts.

    First those who would replace this broker hear so: they must not take over what is not kept. A place that is being
    told for a newcomer must not be overtaken by one without it.
    """

    def __init__(self, core: Core, ghosts: Ghosts, book: ClientBook, claims: Claims, clients: "Clients") -> None:
        self._core = core
        self._ghosts = ghosts
        self._book = book
        self._claims = claims
        self._clients = clients
        self._hindered_us: dict[str, int] = {}
        """By ghost: when its clients were last seen not to be served at once."""

    def tick(self) -> None:
        """Once per heartbeat, while there are ghosts."""
        for ghost in self._ghosts:
            if not self._clients.can_serve(ghost):
                self._hindered_us[ghost] = self._core.now_us

    def due(self, timer: GhostOver) -> None:
        core, ghost = self._core, timer.ghost
        if ghost in self._ghosts and not self._clients.can_serve(ghost):
            core.out.append(SetTimer(timer, core.now_us + max(core.options.ghost_us, core.options.heartbeat_us)))
        elif (since_us := self._hindered_us.get(ghost)) is not None and core.now_us < since_us + core.options.ghost_us:
            core.out.append(SetTimer(timer, since_us + core.options.ghost_us))
        elif ghost in self._ghosts and self._clients.expects_any(ghost):
            core.out.append(SetTimer(timer, core.now_us + core.options.heartbeat_us))
        else:
            self._let_go(ghost)

    def let_idle_go(self) -> None:
        """At the end of a step: those that wait for nobody any more."""
        for ghost in self._ghosts.take_idle():
            self._let_go(ghost)

    def _let_go(self, ghost: str) -> None:
        core = self._core
        if self._claims.admitted:
            core.out.append(SetTimer(GhostOver(ghost), core.now_us + core.options.heartbeat_us))
            return
        if not self._ghosts.let_go(ghost):
            return
        core.view.looks_after = self._ghosts.lives()
        core.waves.start(core.view.publish_place(), core.view.reach, lambda: self.end(ghost))

    def end(self, ghost: str) -> None:
        """Everybody has heard so who must."""
        self._hindered_us.pop(ghost, None)
        if ghost in self._ghosts:
            missing = self._ghosts.expire(ghost, self._core.out)
            self._core.out.append(CancelTimer(GhostOver(ghost)))
            self._book.listeners.check(sorted(missing))
