"""What the overlay finds out, for the broker to act on."""

from collections import deque
from collections.abc import Sequence

from resprout.core.contract import Outcome
from resprout.overlay.view import MembershipView


class Declared(Outcome, frozen=True):
    """These are dead, and this broker leads their repair. They have their tombstones; all else is to do."""

    names: tuple[str, ...]


class Registered(Outcome, frozen=True):
    """What had to be known elsewhere before the running repair ends is known."""


class Expelled(Outcome, frozen=True):
    """This broker was declared dead, or left out: its life is over."""

    reason: str


def declare(view: MembershipView, names: Sequence[str], outcomes: deque[Outcome]) -> None:
    """Bury them at once: what the overlay does until the broker acts on it must not declare them a second time."""
    for name in names:
        view.bury(name, view.incarnation_of(name))
    outcomes.append(Declared(tuple(names)))
