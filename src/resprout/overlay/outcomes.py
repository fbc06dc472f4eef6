"""What the overlay finds out, for the broker to act on."""

from resprout.core.contract import Outcome


class Declared(Outcome, frozen=True):
    """These are dead, and this broker leads their repair. They have their tombstones; all else is to do."""

    names: tuple[str, ...]


class Registered(Outcome, frozen=True):
    """What had to be known elsewhere before the running repair ends is known."""


class Expelled(Outcome, frozen=True):
    """This broker was declared dead, or left out: its life is over."""

    reason: str
