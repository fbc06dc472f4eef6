"""The wake-ups of a client. They stand here because structures are not compiled, and who uses them is."""

from resprout.core.contract import Timer


class TellTaken(Timer, frozen=True):
    """When to tell the broker which deliveries the application has."""


class AskOthers(Timer, frozen=True):
    """When to turn to others, because the broker is still silent."""


class AnswerDue(Timer, frozen=True):
    """When to ask the next one, because this one does not answer."""

    broker: str


class AskAgain(Timer, frozen=True):
    """When to begin another round."""

    brokers: tuple[str, ...]
    """Whom it will ask; a driver that knows all of them to be gone need not wait for it."""
