"""The one thing that reading a condition may raise."""

from resprout.core.errors import UsageError


class WhereError(UsageError):
    """A `where` condition cannot be read. One line says what was expected, what was found and in which column."""

    def __init__(self, complaint: str, position: int | None = None) -> None:
        super().__init__(complaint, position)
        self.complaint = complaint
        self.position = position or 0
        """Characters before the trouble: a caret under the text goes after this many spaces. 0 for trouble with the
        whole."""

    def __str__(self) -> str:
        complaint, position = self.args
        return complaint if position is None else f"{complaint} (column {position + 1})"
