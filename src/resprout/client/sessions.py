"""What all sessions of this process with brokers have in common: how they speak, and how they are numbered."""

from typing import Final

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.net.frames import make_codec
from resprout.net.incarnation import believed, new_incarnation

CODEC: Final = make_codec(CLIENT_MESSAGES)
_latest_incarnation = 0
"""Of all clients of this process: no two have the same, however fast they follow each other."""


def next_incarnation(met: int) -> int:
    """Higher than any that this process or the broker knows of, as far as a broker can be believed: this number is
    handed on from client to client."""
    global _latest_incarnation
    _latest_incarnation = max(new_incarnation(), believed(met) + 1, _latest_incarnation + 1)
    return _latest_incarnation
