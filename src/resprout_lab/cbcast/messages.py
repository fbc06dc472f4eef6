"""A publication with its clocks: the only message of CBCAST besides those of `blocks.multicast`."""

from resprout.core.errors import PeerError
from resprout_lab.blocks import causal_order
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.blocks.multicast.messages import MulticastMessage, length_of


class Multicast(MulticastMessage, frozen=True, tag=184):
    """A publication to the group of its topic."""

    clocks: Changes
    """Of every group, what has changed at the sender since its last message to this one. The entry of the sender in
    this group is the number of the message."""

    @property
    def cost(self) -> int:
        return self.bundle.cost + length_of(self.clocks)

    @property
    def paper_bytes(self) -> int:
        return causal_order.paper_bytes(self.clocks)

    @property
    def group(self) -> str:
        return self.bundle.topic

    def checked_number(self) -> int:
        """Its own entry. PeerError unless it has one, and clocks that an honest peer may send."""
        causal_order.check_changes(self.clocks)
        for group, entries in self.clocks:
            if group == self.bundle.topic:
                for member, number in entries:
                    if member == self.sender:
                        return number
        raise PeerError(f"{self.bundle!r} has no number among the messages of {self.sender!r}")
