"""How far a repair has come, at its coordinator and at a member."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from resprout.core.states import transition
from resprout.overlay.places import Life
from resprout.stacks.resprout.repair.parcels import Parcel
from resprout.stacks.resprout.repair.pool import Inventory


class RepairState(Enum):
    COLLECTING = auto()
    """Of the coordinator: members are asked, and the dead are registered; whoever is found dead joins the piece."""
    ATTACHED = auto()
    """Of a member: it has handed over what crossed the dead link, and waits for the Grant."""
    FINISHING = auto()
    """All is here: the pool is being taken, in one step."""
    TAKEN_OVER = auto()
    """Of a member: its coordinator is dead, too, and another has asked."""
    DONE = auto()


REPAIR_STATES: Final[Mapping[RepairState, frozenset[RepairState]]] = {
    RepairState.COLLECTING: frozenset({RepairState.FINISHING}),
    RepairState.ATTACHED: frozenset({RepairState.FINISHING, RepairState.TAKEN_OVER}),
    RepairState.FINISHING: frozenset({RepairState.DONE}),
    RepairState.TAKEN_OVER: frozenset(),
    RepairState.DONE: frozenset(),
}


class LedRepair:
    """One repair that this broker leads."""

    def __init__(self, token: int) -> None:
        self.token = token
        self.state = RepairState.COLLECTING
        self.dead: dict[str, Life] = {}
        self.asked: dict[str, int] = {}
        """Members, and when they were asked."""
        self.got: dict[str, tuple[int, Parcel]] = {}
        """Members that have attached: their incarnation, and what they brought."""
        self.others: dict[str, None] = {}
        """Asked, and no members after all."""

    def move_to(self, state: RepairState) -> None:
        self.state = transition(REPAIR_STATES, self.state, state)


class AttachedRepair:
    """One repair in which this broker is a member: of one dead link."""

    __slots__ = ("coordinator", "dead", "inventory", "state", "token")

    def __init__(self, coordinator: str, token: int, dead: tuple[Life, ...], inventory: Inventory) -> None:
        self.coordinator = coordinator
        self.token = token
        self.dead = dead
        self.inventory = inventory
        self.state = RepairState.ATTACHED

    def move_to(self, state: RepairState) -> None:
        self.state = transition(REPAIR_STATES, self.state, state)
