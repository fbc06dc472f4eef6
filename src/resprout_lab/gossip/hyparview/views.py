"""The two views of a member, and those that it could not reach. Each is bounded; who gives way is drawn."""

from collections.abc import Collection, Iterable
from random import Random

from resprout.overlay.wires import OverlayMember
from resprout_lab.gossip.hyparview.options import ViewOptions


class Views:
    """Nobody is in two of them, and the owner in none."""

    def __init__(self, me: OverlayMember, options: ViewOptions, rng: Random) -> None:
        self.me = me
        self._options = options
        self._rng = rng
        self.active: dict[str, OverlayMember] = {}
        """Neighbours, the longest first."""
        self.passive: dict[str, OverlayMember] = {}
        self.lost: dict[str, OverlayMember] = {}
        """Not reached when they were last called; the longest first."""

    @property
    def places(self) -> int:
        """Neighbours that are missing."""
        return self._options.active - len(self.active)

    @property
    def is_full(self) -> bool:
        return self.places <= 0

    @property
    def is_short(self) -> bool:
        """Half of the neighbours are missing, or more: somebody has to give way. The paper waits until there are none;
        but a few that have only each other, and whom all others decline, would stay by themselves. One that gives way
        to another is never short by that: with two neighbours at most, only who has none is."""
        count, most = len(self.active), self._options.active
        return not count or (2 * count <= most and count < most - 1)

    def choose(self, names: Iterable[str]) -> str | None:
        """Anyone of these."""
        candidates = list(names)
        return self._rng.choice(candidates) if candidates else None

    def sample(self, view: dict[str, OverlayMember], count: int, without: Collection[str] = ()) -> list[OverlayMember]:
        """Up to so many of a view."""
        candidates = [member for name, member in view.items() if name not in without]
        return self._rng.sample(candidates, min(count, len(candidates)))

    # -- changes -------------------------------------------------------------------------------------------------------

    def add_active(self, member: OverlayMember) -> None:
        """There is room for it."""
        assert not self.is_full and member.name != self.me.name
        self.passive.pop(member.name, None)
        self.lost.pop(member.name, None)
        self.active[member.name] = member

    def add_passive(self, member: OverlayMember, told: Iterable[str] = ()) -> None:
        """Unless it is known. Where there is no room, one gives way that the other side was just `told` of, or anyone.
        Whoever could not be reached here is not believed to live because others say so."""
        name = member.name
        if name == self.me.name or name in self.active or name in self.passive or name in self.lost:
            return
        if len(self.passive) >= self._options.passive:
            out = next((known for known in told if known in self.passive), None) or self.choose(self.passive)
            assert out is not None
            del self.passive[out]
        self.passive[name] = member

    def lose(self, member: OverlayMember) -> None:
        """It could not be reached."""
        self.passive.pop(member.name, None)
        self.active.pop(member.name, None)
        self.lost[member.name] = member
        if len(self.lost) > self._options.passive:
            del self.lost[next(iter(self.lost))]

    def found(self, name: str) -> None:
        """It has said something."""
        if (member := self.lost.pop(name, None)) is not None:
            self.add_passive(member)

    def forget(self, name: str) -> None:
        for view in (self.active, self.passive, self.lost):
            view.pop(name, None)
