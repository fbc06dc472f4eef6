"""What a query is told. Spark shows the last line of it, so each is one line that says what and where."""

from resprout.core.errors import ResproutError


class SourceError(ResproutError):
    """Nothing can be read from there, for now or for good."""


class DataLossError(SourceError):
    """Something that the query had not read is gone, or may be."""


class SinkError(ResproutError):
    """A batch was not published, or it is not known whether all of it was."""
