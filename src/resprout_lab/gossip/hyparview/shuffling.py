"""Passive views are mixed: some of those that a member knows for as many that another one knows."""

from collections.abc import Callable, Iterable, Sequence

from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.overlay.wires import OverlayMember
from resprout_lab.gossip.hyparview.messages import Shuffle, ShuffleReply
from resprout_lab.gossip.hyparview.options import SAMPLE_MAX, TTL_MAX, ViewOptions
from resprout_lab.gossip.hyparview.views import Views


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
