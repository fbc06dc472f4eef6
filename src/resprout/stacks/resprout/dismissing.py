"""The end of ghosts: clients of a dead broker that are not waited for any more.

First those who would replace this broker hear so: they must not take over what is not kept. A place that is being told
for a newcomer must not be overtaken by one without it.
"""

from resprout.core.contract import SetTimer
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.stacks.resprout.clients import Clients
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.joining.admission import Admission


class Dismissing:
    def __init__(self, core: Core, ghosts: Ghosts, clients: Clients, admission: Admission) -> None:
        self._core = core
        self._ghosts = ghosts
        self._clients = clients
        self._admission = admission

    def due(self, timer: GhostOver) -> None:
        self._let_go(timer.ghost)

    def let_idle_go(self) -> None:
        """At the end of a step: those that wait for nobody any more."""
        for ghost in self._ghosts.take_idle():
            self._let_go(ghost)

    def _let_go(self, ghost: str) -> None:
        core = self._core
        if self._admission.claims.admitted:
            core.out.append(SetTimer(GhostOver(ghost), core.now_us + core.options.heartbeat_us))
            return
        if not self._ghosts.let_go(ghost):
            return

        def expire() -> None:
            if ghost in self._ghosts:
                self._clients.end_ghost(ghost)

        core.view.looks_after = self._ghosts.lives()
        core.waves.start(core.view.publish_place(), core.view.reach, expire)
