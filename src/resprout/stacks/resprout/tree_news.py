"""What neighbours tell about the tree, in waves, and what this broker does in the light of it."""

from collections.abc import Callable
from typing import Any

from resprout.core.contract import Locate
from resprout.order.link import Link
from resprout.overlay.council import Council
from resprout.overlay.messages import Tell, Told
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.joining.admission import Admission
from resprout.stacks.resprout.outcomes import TreeChanged


class TreeNews:
    def __init__(self, core: Core, council: Council, admission: Admission) -> None:
        self._core = core
        self._council = council
        self._admission = admission
        self.handlers = {kind: self._heard(handler) for kind, handler in core.waves.handlers.items()}

    def _heard(self, handler: Callable[[str, Any, int], None]) -> Callable[[Link, Any], None]:
        def handle(link: Link, message: Any) -> None:
            core = self._core
            handler(link.name, message, core.now_us)
            if isinstance(message, Tell):
                known = core.view.places
                here = [place for place in message.places if place.address and known.get(place.name) is place]
                core.out.extend(
                    [Locate(place.name, place.address) for place in here]
                )  # it may have come back elsewhere
            if isinstance(message, Tell | Told):  # a search for a name changes nothing
                core.outcomes.append(TreeChanged())

        return handle

    def changed(self, outcome: TreeChanged) -> None:
        core = self._core
        if core.view.parent is None and len(core.view.configuration.voters) <= 2 * core.faults:
            self._council.extend_configuration(core.now_us)  # a young root has nobody to follow it: let newcomers do so
        self._admission.admit()  # somebody may have told where there is room
