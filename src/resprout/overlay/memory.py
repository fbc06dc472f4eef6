"""What a broker keeps on disk about its network, whatever else it keeps: so that its next life may vote in its place.

A voter writes what it agrees to before it answers (Ongaro and Ousterhout, Raft, 5.1: persistent state). After all
brokers have stopped, the next lives of enough voters therefore know every configuration that may have been decided, and
one of them can lead the same network (`stacks/resprout/joining/reunion.py`).

Assumption: a data folder is never put back to an earlier state (a restored backup).
"""

from typing import ClassVar, Final

import msgspec

from resprout.core.contract import BrokerMessage, Sender
from resprout.core.errors import PeerError
from resprout.core.message_fields import NUMBER_MAX, BoundedNumber, Epoch
from resprout.overlay.configurations import UNDECIDED_MAX
from resprout.overlay.places import LIVES_MAX, Configuration, Life

LIVES_KEPT: Final = 64
"""Of one broker. Configurations with an older life were replaced long ago."""
OTHERS_KEPT: Final = 256
"""Other brokers, the nearest first."""
NETWORK_LETTERS_MAX: Final = 512


class MembershipMemory(msgspec.Struct, frozen=True, array_like=True):
    """Written by one life, read by the next."""

    network: str
    lives: tuple[int, ...]
    """Incarnations of this broker whose consents are in here, the latest last."""
    epoch: int
    decided: Configuration
    """The latest that is known to be decided."""
    agreed: tuple[Configuration, ...] = ()
    """What this broker has agreed to since."""
    others: tuple[Life, ...] = ()
    """Other brokers of the network, as they were known last."""
    proposed: int = 0
    """The highest version that this broker has proposed: it never proposes two configurations of one version."""

    @property
    def known(self) -> tuple[Configuration, ...]:
        return (self.decided, *self.agreed)


class Whereabouts(BrokerMessage, frozen=True, tag=99):
    """From a broker that has a memory of its network and looks for it, to every broker that it knows. The answer of one
    that has a place says so."""

    said_by: ClassVar[Sender] = Sender.BROKER | Sender.NEWCOMER

    network: str
    placed: bool
    """The sender has a place in that network: ask it for one."""
    address: str = ""
    lives: tuple[BoundedNumber, ...] = ()
    epoch: Epoch = 0
    decided: Configuration = Configuration()
    undecided: tuple[Configuration, ...] = ()
    others: tuple[Life, ...] = ()

    def check(self) -> None:
        """PeerError when it is beyond all bounds."""
        if len(self.network) > NETWORK_LETTERS_MAX or len(self.lives) > LIVES_KEPT + 1:
            raise PeerError("a broker that looks for its network tells more than it can remember")
        if len(self.undecided) > UNDECIDED_MAX + 1 or len(self.others) > LIVES_MAX:
            raise PeerError("a broker that looks for its network tells of too many configurations or brokers")
        if not all(x.is_sound() for x in (self.decided, *self.undecided)):
            raise PeerError("a broker that looks for its network tells of a configuration that cannot be")
        if not all(0 <= number <= NUMBER_MAX for number in (*self.lives, *(life.incarnation for life in self.others))):
            raise PeerError("a broker that looks for its network tells of a life that cannot be")


encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(MembershipMemory).decode


def decode(record: bytes) -> MembershipMemory | None:
    """None when it cannot be read."""
    try:
        return _decode(record)
    except msgspec.MsgspecError:
        return None
