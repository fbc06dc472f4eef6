"""What the parts of a broker find out, for the others to act on."""

from resprout.core.contract import Outcome


class LinksChanged(Outcome, frozen=True):
    """A repair is over here, or somebody has joined."""


class Answered(Outcome, frozen=True):
    """Whoever was asked to be the parent has accepted, or declined: others may wait to hear that."""


class FollowsRoot(Outcome, frozen=True):
    """The root is dead, and this broker is the first of its children that lives."""

    dead: tuple[str, ...]
