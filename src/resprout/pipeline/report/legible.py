"""Letters that a page can hold."""


def legible(text: str) -> str:
    """Control characters and halves of surrogate pairs have no place in a page, and would make it unreadable."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t\u00a0\u202f" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )
