"""The one error of this floor."""

from resprout.core.errors import UsageError


class TraceError(UsageError):
    """A trace that cannot be read, written or judged; one line that names the file or row and the reason."""
