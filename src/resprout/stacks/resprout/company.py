"""What the next process of this broker is to know: who else is in the tree, and what this one has agreed to.

It looks for them before it founds anything. What it has agreed to it may need when all brokers have stopped: then the
next lives of enough voters go on as the same network (`joining/reunion`).
"""

from collections.abc import Iterable

from resprout.core.contract import Remember
from resprout.overlay.council import Council
from resprout.overlay.memory import LIVES_KEPT, OTHERS_KEPT, MembershipMemory, encode
from resprout.overlay.places import Life
from resprout.stacks.resprout.core import Core


class Company:
    def __init__(self, core: Core, council: Council) -> None:
        self._core = core
        self._council = council
        self._told: Remember | None = None

    def remember(self, admitted: Iterable[str]) -> None:
        """Write who else is in the network, and what this broker has agreed to, if that has changed. `admitted`:
        newcomers that are being taken in: no later process of this broker forgets that it is not alone."""
        core, view = self._core, self._core.view
        if not core.attached and core.memory is None:
            return
        known = [
            Life(name, place.incarnation)
            for name, place in view.places.items()
            if name != view.name and not view.is_dead(name)
        ]
        if core.attached:
            names = tuple(dict.fromkeys([*[life.name for life in known], *admitted]))
        else:
            names = tuple(core.sought)
        memory = self._memory(known[:OTHERS_KEPT])
        told = Remember(memory.network, names, encode(memory), core.attached)
        if told != self._told:
            self._told = told
            core.records.append(told)

    def _memory(self, known: Iterable[Life]) -> MembershipMemory:
        core, view, configurations = self._core, self._core.view, self._council.configurations
        before = core.memory
        if not core.attached and before is not None:
            network, epoch, others = before.network, before.epoch, before.others
        else:
            network, epoch, others = view.network, view.epoch, tuple(known)
        return MembershipMemory(
            network,
            view.own_lives[-LIVES_KEPT:],
            epoch,
            view.decided,
            configurations.agreed,
            others,
            configurations.proposed,
        )
