"""What neighbours tell about the tree, in waves, and what this broker does in the light of it."""

from resprout.core.contract import Locate
from resprout.order.link import Link
from resprout.overlay.council import Council
from resprout.overlay.messages import Seek, Sought, Tell, Told
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

    def heard(self, link: Link, message: Tell | Told | Seek | Sought) -> None:
        life = self._life
        self._waves.handlers[type(message)](link.name, message, life.now_us)
        if isinstance(message, Tell):
            known = life.view.places
            here = [place for place in message.places if place.address and known.get(place.name) is place]
            life.out.extend([Locate(place.name, place.address) for place in here])  # it may have come back elsewhere
        if isinstance(message, Tell | Told):  # a search for a name changes nothing
            life.outcomes.append(TreeChanged())

    def changed(self, outcome: TreeChanged) -> None:
        life = self._life
        if life.view.parent is None and len(life.view.configuration.voters) <= 2 * life.faults:
            self._council.extend_configuration(life.now_us)  # a young root has nobody to follow it: let newcomers do so
        self._admission.admit()  # somebody may have told where there is room
