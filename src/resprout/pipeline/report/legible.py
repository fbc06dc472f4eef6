"""Letters that a page can hold."""

from resprout.core.escaping import escape


def legible(text: str) -> str:
    """Control characters and halves of surrogate pairs have no place in a page, and would make it unreadable."""
    return escape(text, keep="\n\t\u00a0\u202f")
