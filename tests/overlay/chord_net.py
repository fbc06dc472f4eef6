"""Members of a ring in a light world. Whether the ring is right is computed from what they say, and by nothing else."""

from collections.abc import Iterable
from typing import Any

from resprout.core.contract import Outcome, Timer
from resprout_lab.blocks.mesh import OverlayMember
from resprout_lab.scribe.chord import Chord, KeyFound, KeyNotFound, OwnerOverdue, StabiliseDue
from resprout_lab.scribe.options import RingOptions
from resprout_lab.scribe.ring_numbers import distance, number_of
from tests.overlay.light_world import LightMember, LightWorld


class OnRing(LightMember["Ring"]):
    def __init__(self, net: "Ring", name: str, contacts: Iterable[str]) -> None:
        super().__init__(net, name)
        self.chord = Chord(OverlayMember(name), list(contacts), net.options, self)
        self.found: dict[bytes, KeyFound | None] = {}

    def tell(self, outcome: Outcome) -> None:
        if isinstance(outcome, KeyFound | KeyNotFound):
            self.found[outcome.key] = outcome if isinstance(outcome, KeyFound) else None

    def hear(self, name: str, message: Any) -> None:
        self.chord.hear(name, message)

    def gone(self, name: str) -> None:
        self.chord.unreachable(name)

    def fire(self, timer: Timer) -> None:
        if isinstance(timer, StabiliseDue):
            self.chord.stabilise_due(timer)
        elif isinstance(timer, OwnerOverdue):
            self.chord.owner_overdue(timer)

    def near(self) -> Iterable[str]:
        """Sessions: the successor is asked now and then, and the predecessor asks."""
        before = self.chord.predecessor
        names = [member.name for member in self.chord.successors[:1]]
        return [*names, *([before.name] if before is not None else [])]


class Ring(LightWorld[OnRing]):
    def __init__(self, seed: int, options: RingOptions | None = None) -> None:
        super().__init__(seed)
        self.options = options or RingOptions()

    def join(self, name: str, *contacts: str) -> None:
        member = self.living[name] = OnRing(self, name, contacts)
        member.chord.begin()

    def grow(self, members: int, every_us: int = 50_000) -> None:
        for no in range(members):
            self.join(f"m{no}", *([self.rng.choice(list(self.living)), "m0"] if no else []))
            self.pass_time(every_us)

    def stabilise(self, rounds: int) -> None:
        self.pass_time(rounds * self.options.stabilise_us)

    # -- what they say of themselves -----------------------------------------------------------------------------------

    @property
    def members(self) -> list[str]:
        """Those on the ring that live, in its order."""
        return sorted((name for name, one in self.living.items() if one.chord.is_member), key=number_of)

    def successor(self, name: str) -> str | None:
        """The first of a member's successors that lives and is one; itself, if it knows of no others; None if all that
        it knows of are dead."""
        listed = [member.name for member in self.living[name].chord.successors]
        if not listed:
            return name
        return next((one for one in listed if one in self.living and self.living[one].chord.is_member), None)

    def wrong(self) -> list[str]:
        """What Zave's invariant says that must hold at any time, and does not: every member knows of one that lives,
        these ways lead from everybody into one ring, and the ring is in order."""
        follow = {name: self.successor(name) for name in self.members}
        lost = [f"{name} has no successor that lives" for name, after in follow.items() if after is None]
        if lost or not follow:
            return lost
        rings = set()
        for name in follow:
            rings.add(frozenset(self._ring_from(name, follow)))
        if len(rings) != 1:
            return [f"there are {len(rings)} rings"]
        (ring,) = rings
        in_order = [name for name in self.members if name in ring]
        return [
            f"{one} is followed by {follow[one]}, not by {other}"
            for one, other in zip(in_order, [*in_order[1:], in_order[0]], strict=True)
            if follow[one] != other
        ]

    def _ring_from(self, name: str, follow: dict[str, str | None]) -> list[str]:
        """The circle that one gets into."""
        walked: dict[str, None] = {}
        at: str | None = name
        while at is not None and at not in walked:
            walked[at] = None
            at = follow[at]
        path = list(walked)
        return path[path.index(at) :] if at is not None else []

    def not_ideal(self) -> list[str]:
        """What is not as it should be when all has settled: who precedes and who follows, all of them, and fingers."""
        members = self.members
        found = [f"{name} has not joined" for name in self.living if name not in members]
        for place, name in enumerate(members):
            chord = self.living[name].chord
            after = [members[(place + 1 + i) % len(members)] for i in range(len(members) - 1)]
            if [member.name for member in chord.successors] != after[: self.options.successors]:
                found.append(f"{name} is followed by {[member.name for member in chord.successors]}")
            before = chord.predecessor.name if chord.predecessor is not None else None
            if before != (members[place - 1] if len(members) > 1 else None):
                found.append(f"{name} is preceded by {before}")
            found += [f"{name} has the finger {one.name}" for one in chord.fingers if one.name not in self.living]
        return found

    def owner(self, number: int) -> str:
        """By the rule: the first member at or behind it."""
        joined = (name for name, one in self.living.items() if one.chord.is_member)
        return min(joined, key=lambda name: distance(number, number_of(name)))
