"""Names in a sentence, for people."""

from collections.abc import Sequence
from typing import Final

NAMES_SHOWN: Final = 4
"""More are counted: a reason has to fit into a message."""


def listed(names: Sequence[str]) -> str:
    """`b1`, `b1 and b2`, `b1, b2 and b3`, `b1, b2, b3, b4 and 5 more`."""
    shown = list(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        shown.append(f"{len(names) - NAMES_SHOWN} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def unheard(names: Sequence[str]) -> str:
    return f"{listed(names)}, which {'is' if len(names) == 1 else 'are'} not heard"
