"""A publication with its barriers, and who there is to be a target."""

from typing import Final

from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout_lab.blocks.causal_order import COUNT_MAX
from resprout_lab.blocks.multicast.messages import MulticastMessage
from resprout_lab.causal_barriers.header import Barriers

EVERYBODY: Final = "#"
"""The one group: a member numbers all that it multicasts, whatever the topic."""
MEMBERS_PER_MESSAGE: Final = 4096
"""With the longest names some 300 KB."""
_MEMBER_BYTES: Final = 16


class BarrierMulticast(MulticastMessage, frozen=True, tag=190):
    """A publication to all targets that its header names, and to whoever has come meanwhile."""

    number: int
    """Among all that its sender multicasts."""
    barriers: Barriers

    @property
    def cost(self) -> int:
        return self.bundle.cost + self.barriers.encoded_bytes

    @property
    def paper_bytes(self) -> int:
        return self.barriers.paper_bytes

    @property
    def group(self) -> str:
        return EVERYBODY

    def checked_number(self) -> int:
        if not 0 < self.number <= COUNT_MAX or not self.barriers.is_sound:
            raise PeerError(f"{self.bundle!r} has numbers that cannot be")
        return self.number


class MembersKnown(ProtocolMessage, frozen=True, tag=191):
    """These brokers, in these lives, are in the network: targets from now on. Passed on to those who may not know."""

    members: tuple[tuple[str, int], ...]

    @property
    def bulk(self) -> int:
        return sum(len(name) + _MEMBER_BYTES for name, _ in self.members)
