"""What the parts of a broker find out, for the others to act on."""

from resprout.core.contract import Outcome


class Repaired(Outcome, frozen=True):
    """A repair is over here: links were replaced."""

    dead: tuple[str, ...]
    successor: str
    """Who looks after the clients of the dead."""


class Settled(Outcome, frozen=True):
    """This broker has found its place, or has new neighbours."""


class Reunited(Outcome, frozen=True):
    """All had stopped, and this broker leads the network again."""


class TakenIn(Outcome, frozen=True):
    """A parent has taken this broker in."""

    parent: str


class Cleared(Outcome, frozen=True):
    """Names were looked for: some newcomer may be taken in."""


class TreeChanged(Outcome, frozen=True):
    """A neighbour has told something about the tree."""


class Superseded(Outcome, frozen=True):
    """Later lives of these clients have begun somewhere: any earlier one is over."""

    names: tuple[str, ...]
