"""The one error of this floor."""

from resprout.core.errors import UsageError


class ScenarioError(UsageError):
    """A scenario cannot be run as written. One line: the place (file and line, or the override), then the reason."""
