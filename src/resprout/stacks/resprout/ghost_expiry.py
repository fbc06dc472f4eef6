"""The end of ghosts: when the clients of a dead broker are no longer waited for."""

from resprout.core.contract import CancelTimer, SetTimer
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.overlay.waves import Waves
from resprout.stacks.resprout.client_book import ListenerBook
from resprout.stacks.resprout.joining.claims import Claims
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.served_clients import ServedClients


class GhostExpiry:
    """Lets ghosts go.

    `ghost_us` counts only while clients can be served: not while this broker repairs the tree or its disk is full, nor
    while what the repair brought is on its way to the members or is not safe yet. Each time that hinders them, it
    begins again: they look for a place elsewhere meanwhile, and need the time to come back. A client that is connected
    and waits keeps its ghost for as long as its session lasts.

    First those who would replace this broker hear so: they must not take over what is not kept. A place that is being
    told for a newcomer must not be overtaken by one without it.
    """

    def __init__(
        self,
        life: BrokerLife,
        waves: Waves,
        ghosts: Ghosts,
        listeners: ListenerBook,
        claims: Claims,
        served: ServedClients,
    ) -> None:
        self._life = life
        self._waves = waves
        self._ghosts = ghosts
        self._listeners = listeners
        self._claims = claims
        self._served = served
        self._hindered_us: dict[str, int] = {}
        """By ghost: when its clients were last seen not to be served at once."""

    def tick(self) -> None:
        """Once per heartbeat, while there are ghosts."""
        for ghost in self._ghosts:
            if not self._served.can_serve(ghost):
                self._hindered_us[ghost] = self._life.now_us

    def due(self, timer: GhostOver) -> None:
        life, ghost = self._life, timer.ghost
        if ghost in self._ghosts and not self._served.can_serve(ghost):
            life.out.append(SetTimer(timer, life.now_us + max(life.options.ghost_us, life.options.heartbeat_us)))
        elif (since_us := self._hindered_us.get(ghost)) is not None and life.now_us < since_us + life.options.ghost_us:
            life.out.append(SetTimer(timer, since_us + life.options.ghost_us))
        elif ghost in self._ghosts and self._served.expects_any(ghost):
            life.out.append(SetTimer(timer, life.now_us + life.options.heartbeat_us))
        else:
            self._let_go(ghost)

    def let_idle_go(self) -> None:
        """At the end of a step: those that wait for nobody any more."""
        for ghost in self._ghosts.take_idle():
            self._let_go(ghost)

    def _let_go(self, ghost: str) -> None:
        life = self._life
        if self._claims.admitted:
            life.out.append(SetTimer(GhostOver(ghost), life.now_us + life.options.heartbeat_us))
            return
        if not self._ghosts.let_go(ghost):
            return
        life.view.looks_after = self._ghosts.lives()
        self._waves.start(life.view.publish_place(), life.view.reach, lambda: self.end(ghost))

    def end(self, ghost: str) -> None:
        """Everybody has heard so who must."""
        self._hindered_us.pop(ghost, None)
        if ghost in self._ghosts:
            missing = self._ghosts.expire(ghost, self._life.out)
            self._life.out.append(CancelTimer(GhostOver(ghost)))
            self._listeners.check(sorted(missing))
