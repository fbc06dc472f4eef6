"""What neighbours tell about the tree, in waves, and what this broker does in the light of it."""

from collections.abc import Callable
from typing import Any

from resprout.core.contract import Locate
from resprout.order.link import Link
from resprout.overlay.council import Council
from resprout.overlay.messages import Tell, Told
from resprout.overlay.waves import Waves
from resprout.stacks.resprout.joining.admission import Admission
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.outcomes import TreeChanged


class TreeNews:
    def __init__(
        self,
        life: BrokerLife,
        waves: Waves,
        council: Council,
        admission: Admission,
    ) -> None:
        self._life = life
        self._waves = waves
        self._council = council
        self._admission = admission
        self.handlers = {kind: self._heard(handler) for kind, handler in waves.handlers.items()}

    def _heard(self, handler: Callable[[str, Any, int], None]) -> Callable[[Link, Any], None]:
        def handle(link: Link, message: Any) -> None:
            life = self._life
            handler(link.name, message, life.now_us)
            if isinstance(message, Tell):
                known = life.view.places
                here = [place for place in message.places if place.address and known.get(place.name) is place]
                life.out.extend(
                    [Locate(place.name, place.address) for place in here]
                )  # it may have come back elsewhere
            if isinstance(message, Tell | Told):  # a search for a name changes nothing
                life.outcomes.append(TreeChanged())

        return handle

    def changed(self, outcome: TreeChanged) -> None:
        life = self._life
        if life.view.parent is None and len(life.view.configuration.voters) <= 2 * life.faults:
            self._council.extend_configuration(life.now_us)  # a young root has nobody to follow it: let newcomers do so
        self._admission.admit()  # somebody may have told where there is room
