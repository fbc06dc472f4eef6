"""What can be wrong with a journal."""

from resprout.core.errors import ResproutError, UsageError


class DiskError(ResproutError):
    """What had to be kept could not be written, or not be read."""


class DamagedError(UsageError):
    """A journal is not what was written, and not because a write was torn."""


class NotKeptError(UsageError):
    """The position lies before everything that the journal keeps, or behind its end."""
