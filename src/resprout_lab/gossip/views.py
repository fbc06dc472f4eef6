"""The two views of a member of HyParView, the members that it could not reach, and shuffling.

Each view is bounded; a member that has to give way is drawn at random. `Shuffling` exchanges a sample of the passive
view for a sample of another member's.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from random import Random

from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout_lab.blocks.mesh import OverlayMember
from resprout_lab.gossip.hyparview_messages import Shuffle, ShuffleReply
from resprout_lab.gossip.options import SAMPLE_MAX, TTL_MAX, ViewOptions


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


class Shuffling:
    def __init__(
        self, views: Views, options: ViewOptions, say: Callable[[OverlayMember, ProtocolMessage], None]
    ) -> None:
        self._views = views
        self._options = options
        self._say = say
        self._told: tuple[str, ...] = ()
        """Of whom the last shuffle told: they may give way to those that come for them."""

    def begin(self) -> None:
        """Some of those that are known here, on their way to anybody."""
        views, options = self._views, self._options
        name = views.choose(views.active)
        if name is not None:
            members = [
                *views.sample(views.active, options.shuffle_active, (name,)),
                *views.sample(views.passive, options.shuffle_passive),
            ]
            self._told = tuple(member.name for member in members)
            self._say(views.active[name], Shuffle(views.me, options.join_walk, tuple(members)))

    def hear(self, name: str, message: Shuffle) -> None:
        check_steps(message.steps)
        check_sample(message.members)
        views, origin = self._views, message.origin
        if origin.name == views.me.name:
            return
        onward = views.choose(other for other in views.active if other not in (name, origin.name))
        if message.steps and onward is not None:
            self._say(views.active[onward], Shuffle(origin, message.steps - 1, message.members))
            return
        given = views.sample(views.passive, 1 + len(message.members), (origin.name,))
        self._say(origin, ShuffleReply(tuple(given)))
        self._mix((origin, *message.members), [member.name for member in given])

    def hear_reply(self, name: str, message: ShuffleReply) -> None:
        check_sample(message.members)
        self._mix(message.members, self._told)
        self._told = ()

    def _mix(self, members: Iterable[OverlayMember], told: Iterable[str]) -> None:
        for member in members:
            self._views.add_passive(member, told)


def check_steps(steps: int) -> None:
    """PeerError for a walk that nobody begins."""
    if steps > TTL_MAX:
        raise PeerError(f"a walk of {steps} steps is too long")


def check_sample(members: Sequence[OverlayMember]) -> None:
    if len(members) > SAMPLE_MAX:
        raise PeerError(f"{len(members)} members in one message; at most {SAMPLE_MAX}")
