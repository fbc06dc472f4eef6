"""A publication with its clocks: all that brokers of CBCAST say beyond `stacks.multicast`."""

from resprout.core.errors import PeerError
from resprout_lab.blocks import vector_clock
from resprout_lab.blocks.multicast.messages import MulticastMessage, length_of
from resprout_lab.blocks.vector_clock import Changes


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
        return vector_clock.paper_bytes(self.clocks)

    @property
    def group(self) -> str:
        return self.bundle.topic

    def checked_number(self) -> int:
        """Its own entry. PeerError unless it has one, and clocks that an honest peer may send."""
        vector_clock.check_changes(self.clocks)
        for group, entries in self.clocks:
            if group == self.bundle.topic:
                for member, number in entries:
                    if member == self.sender:
                        return number
        raise PeerError(f"{self.bundle!r} has no number among the messages of {self.sender!r}")
