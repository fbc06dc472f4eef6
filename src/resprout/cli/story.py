"""What happens to a network while it runs, told in plain lines as it happens.

Made of the rows that the trace has anyway: faults, and the notes of brokers about their repairs. The tree is followed
from the scenario's through every repair, as far as notes tell it, to say who takes over whom.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from resprout.net.tree import delays_of
from resprout.scenario.model import Scenario
from resprout.trace import kinds

_DOWN: Final = (kinds.CRASH, kinds.FREEZE, kinds.LEAVE, kinds.PARTITION, kinds.CUT, "fenced", "moved")


class StoryHappening(msgspec.Struct, frozen=True):
    """As a row of the trace says it."""

    time_us: int
    node: str
    kind: str
    detail: str | None


class Story:
    """`say` is given the lines; `pid_of` knows the process of a node, if there is one."""

    def __init__(
        self, scenario: Scenario, say: Callable[[str], None], pid_of: Callable[[str], int | None] = lambda name: None
    ) -> None:
        self._say = say
        self._pid_of = pid_of
        self._parents = {broker.name: broker.parent for broker in scenario.brokers}
        self._delays_us = delays_of(scenario)
        self._down_us: dict[str, int] = {}
        """When each broker was last heard to be in trouble."""
        self._repairs: dict[str, dict[str, int]] = {}
        """By who leads it, and by dead broker: when its repair began."""
        self._tellers: dict[str, Callable[[StoryHappening], str | None]] = {
            kinds.CRASH: self._crashed,
            kinds.RECOVER: lambda it: f"{it.node} is started again{_how(it.detail)}",
            kinds.FREEZE: lambda it: f"{it.node} is frozen ({self._signal('SIGSTOP', it.node)})",
            kinds.UNFREEZE: lambda it: f"{it.node} goes on ({self._signal('SIGCONT', it.node)})",
            kinds.CUT: lambda it: f"nothing passes between {it.node} and {it.detail} any more",
            kinds.PARTITION: lambda it: f"{it.node} is on the far side of a cut",
            kinds.HEAL: lambda it: (
                "every cut is healed" if it.detail is None else f"{it.node} and {it.detail} reach each other again"
            ),
            kinds.JOIN: lambda it: f"{it.node} is started, to join",
            kinds.LEAVE: lambda it: f"{it.node} is asked to leave",
            kinds.REPAIR_BEGIN: self._repair_begins,
            kinds.REPAIR_END: self._repair_ends,
            "joined": self._joined,
            kinds.NOTE: lambda it: f"{it.node}: {it.detail}",
        }

    def hear(self, time_us: int, node: str, kind: str, detail: str | None) -> None:
        """What is not worth a line is left out."""
        if kind in _DOWN:
            self._down_us[node] = time_us
        teller = self._tellers.get(kind)
        text = teller(StoryHappening(time_us, node, kind, detail)) if teller is not None else None
        if text is not None:
            self._say(f"{time_us / 1e6:5.1f} s  {text}")

    # -- faults --------------------------------------------------------------------------------------------------------

    def _crashed(self, it: StoryHappening) -> str:
        if it.detail == "host":
            return f"the machine of {it.node} falls silent ({self._signal('SIGSTOP', it.node)})"
        return f"{it.node} is killed ({self._signal('SIGKILL', it.node)})"

    def _signal(self, name: str, node: str) -> str:
        pid = self._pid_of(node)
        return f"{name}, pid {pid}" if pid is not None else name

    # -- repairs -------------------------------------------------------------------------------------------------------

    def _repair_begins(self, it: StoryHappening) -> str | None:
        """Told by the one who leads it; the others begin when it asks them."""
        dead = (it.detail or "").split()
        if not self._leads(it.node, dead):
            return None
        begun = self._repairs.setdefault(it.node, {})
        for name in dead:
            begun.setdefault(name, it.time_us)
        orphans = [name for name in self._members(dead) if self._parents.get(name) in dead and name != it.node]
        work = f"takes over {_listed(orphans)}" if orphans else "has nobody to take over"
        return f"repair begins: {it.node} {work}"

    def _repair_ends(self, it: StoryHappening) -> str | None:
        dead = (it.detail or "").split()
        open_ones = self._repairs.get(it.node, {})
        begun_us = [open_ones.pop(name) for name in dead if name in open_ones]
        if not begun_us:
            return None
        began_us = min(begun_us)
        members = [name for name in self._members(dead) if name != it.node]
        down_us = min((self._down_us[name] for name in dead if name in self._down_us), default=began_us)
        self._rewire(dead, it.node)
        took_us = it.time_us - began_us
        trip_us = 2 * max((self._delays_us.get(it.node, {}).get(name, 0) for name in members), default=0)
        trips = f"{took_us / trip_us:.1f} round trips" if trip_us else f"{took_us / 1e3:.1f} ms"
        detection_s = max(0, began_us - down_us) / 1e6
        whole_s = (it.time_us - down_us) / 1e6
        return f"{_listed(dead)} repaired in {whole_s:.2f} s: detection {detection_s:.2f} s + {trips}"

    def _leads(self, node: str, dead: Collection[str]) -> bool:
        """The parent of the topmost one; for a root, the first who says so."""
        above = [self._parents.get(name) for name in dead if self._parents.get(name) not in dead]
        others = (name for leader, names in self._repairs.items() if leader != node for name in names)
        return node in above or (None in above and not any(name in dead for name in others))

    def _members(self, dead: Collection[str]) -> list[str]:
        """The live neighbours of a set of dead brokers."""
        above = {self._parents.get(name) for name in dead}
        return [
            name for name, parent in self._parents.items() if name not in dead and (parent in dead or name in above)
        ]

    def _rewire(self, dead: Sequence[str], centre: str) -> None:
        """The centre keeps its own parent, unless that is dead: then the centre is the root."""
        if self._parents.get(centre) in dead:
            above = next((self._parents.get(name) for name in dead if self._parents.get(name) not in dead), None)
            self._parents[centre] = above if above != centre else None
        for name, parent in self._parents.items():
            if parent in dead and name != centre:
                self._parents[name] = centre
        for name in dead:
            self._parents.pop(name, None)

    def _joined(self, it: StoryHappening) -> str | None:
        """That the scenario's tree comes to stand is no news."""
        parent = (it.detail or "").partition(" ")[0]
        if it.node in self._parents and self._parents[it.node] == parent:
            return None
        self._parents[it.node] = parent
        return f"{it.node} has joined below {parent}"


def _listed(names: Sequence[str] | Mapping[str, object]) -> str:
    """b1, b2 and b3."""
    *most, last = names or ("nobody",)
    return f"{', '.join(most)} and {last}" if most else last


def _how(recovery: str | None) -> str:
    """As the detail of a `recover` says it."""
    said = recovery or ""
    disk = " with an empty disk" if kinds.EMPTY_DISK in said else ""
    return disk + (f", and {kinds.ANEW}" if kinds.ANEW in said else "")
