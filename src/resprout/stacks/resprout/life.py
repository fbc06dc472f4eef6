"""This life of the broker: who it is, what it was told to do, where it stands in the tree, and whether it takes part.

Every part of a broker receives it. It is also the buffer of the step (`stacks.shell`), so all parts write their
effects to the same list, in order.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from resprout.core.contract import Retire
from resprout.core.errors import transition
from resprout.edge.messages import Successor
from resprout.overlay.messages import Life
from resprout.overlay.view import MembershipView
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat

SUCCESSORS_MAX: Final = 16


class LifeState(Enum):
    OUTSIDE = auto()
    """This broker looks for its place in the tree."""
    PLACED = auto()
    LEAVING = auto()
    """This broker has its place and was asked to leave it: it accepts no client, no newcomer and no publication, and
    does not start again by itself."""


LIFE_STATES: Final[Mapping[LifeState, frozenset[LifeState]]] = {
    LifeState.OUTSIDE: frozenset({LifeState.PLACED}),
    LifeState.PLACED: frozenset({LifeState.LEAVING}),
    LifeState.LEAVING: frozenset(),
}
"""A life also ends, in any of these states: `Step.retired`."""


class BrokerLife(Step):
    def __init__(self, seat: BrokerSeat, options: ResproutOptions) -> None:
        super().__init__()
        self.seat = seat
        self.options = options
        self.faults = options.faults_tolerated
        self.view = MembershipView(seat.name, seat.incarnation, seat.address, self.faults, seat.remembers)
        self.state = LifeState.OUTSIDE
        self.attached = False
        """This broker has its place in the tree, as the state says; read all the time."""
        self.leaving = False
        """This broker was asked to leave its place, as the state says."""
        self.reviving = False
        """After a full restart the logs of all disks are being gathered: no client is served yet."""
        self.gathering = False
        """After a full restart this broker leads the network again: no client is served until most voters have
        joined. Logs may be gathered at the same time (`reviving`)."""
        self.leading = False
        """This broker leads a repair."""
        self.declared_logs = b""
        """What commands have declared about logs, for the next life of this broker."""
        self.is_disk_full = False
        """The driver takes nothing from other brokers, for lack of room: perhaps no answer leaves."""

    def move_to(self, state: LifeState) -> None:
        self.state = transition(LIFE_STATES, self.state, state)
        self.attached = True
        self.leaving = state is LifeState.LEAVING

    @property
    def own(self) -> Life:
        """The name and incarnation of this broker."""
        return Life(self.seat.name, self.seat.incarnation)

    @property
    def is_calm(self) -> bool:
        """Whether no repair runs here: this broker leads none, and every dead neighbour is replaced."""
        return not self.leading and all(self.view.neighbours.values())

    @property
    def goes_on(self) -> bool:
        """Whether no full restart is under way."""
        return not self.reviving and not self.gathering

    @property
    def is_settled(self) -> bool:
        """Whether this broker has its place and neither a repair nor a full restart is under way."""
        return self.attached and self.is_calm and self.goes_on

    def successors(self) -> tuple[Successor, ...]:
        """Return the brokers that clients turn to when this one dies: those that would lead the repair, first one
        first."""
        view = self.view
        names: dict[str, None] = {}
        above = view.parent
        while above is not None and above not in names and len(names) <= self.faults:
            names[above] = None
            above = view.places[above].parent if above in view.places else None
        names.update(dict.fromkeys((*view.configuration.names, *view.neighbours, *view.places)))
        names.pop(view.name, None)
        known = [(name, view.places[name]) for name in names if name in view.places and not view.is_dead(name)]
        return tuple([Successor(name, place.address) for name, place in known[:SUCCESSORS_MAX]])

    # -- the end of this life ------------------------------------------------------------------------------------------

    def retire(self, reason: str, again: bool = True, kind: str = "fenced", toward: str | None = None) -> None:
        """End this life. The next one is numbered above every life that anybody has called dead, or it would be fenced
        in turn."""
        again = again and not self.leaving
        if not self.retired:
            if again:
                self.note(kind, reason)
            self.end_life(Retire(reason, again, toward, self.view.outlived))

    def refuse(self, reason: str) -> None:
        """End this life for good: the network does not accept this broker, and trying again would not help."""
        if not self.retired:
            self.note("name_refused", reason)
            self.end_life(Retire(reason, again=False, refused=True))
