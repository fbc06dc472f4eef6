"""The order of CBCAST at one member of all groups: how messages are numbered, and when they are delivered.

*Multicast* of m to a group g: the member increments its own entry in the clock of g. m carries the entries of the
clocks of all groups that have changed since the member's last message to g.

*Arrival* of m: it waits until, for every entry of its clocks, as many messages of that member to that group have been
delivered here, and all earlier messages of its sender to g. Entries that m does not carry were carried by the message
of the same sender to g before it, for which m waits.

*Delivery* of m: the clock counts it. The clock counts only messages that were delivered, or must not be waited for
(`pass_over`). So the next multicast carries exactly what this member has seen before it, and clocks need no merging.
"""

import random

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks import causal_order
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.blocks.multicast.broker import MulticastBroker, MulticastOptions, member_of
from resprout_lab.blocks.multicast.copies import Entries
from resprout_lab.blocks.multicast.messages import HEADER_MAX, MulticastMessage, length_of
from resprout_lab.blocks.multicast.order import HeaderSizeError, MulticastOrder


class Multicast(MulticastMessage, frozen=True, tag=184):
    """A publication to the group of its topic."""

    clocks: Changes
    """Entries of all groups that have changed at the sender since its last message to this group. The entry of the
    sender in this group is the number of the message."""

    @property
    def cost(self) -> int:
        return self.bundle.cost + length_of(self.clocks) + 2 * len(self.skipped)

    @property
    def paper_bytes(self) -> int:
        return causal_order.paper_bytes(self.clocks)

    @property
    def group(self) -> str:
        return self.bundle.topic

    def checked_number(self) -> int:
        """Return its own entry. Raises PeerError unless it has one, and clocks that an honest peer may send."""
        causal_order.check_changes(self.clocks)
        for group, entries in self.clocks:
            if group == self.bundle.topic:
                for member, number in entries:
                    if member == self.sender:
                        return number
        raise PeerError(f"{self.bundle!r} has no number among the messages of {self.sender!r}")


class CausalOrder(MulticastOrder[Multicast]):
    def __init__(self, member: str, held_max: int) -> None:
        super().__init__(member, held_max)
        self._sent: dict[str, int] = {}
        """Version of the clock with the last message from here to a group, by group."""

    def check_room(self, bundle: Bundle) -> None:
        group = bundle.topic
        self._check_clock(group)
        changed = self._clock.since(self._sent.get(group, 0))
        if length_of(changed) + length_of(((group, ((self.member, 1),)),)) > HEADER_MAX:
            raise HeaderSizeError(f"more has changed since the last message to {group!r} than a message can say")

    def make(self, bundle: Bundle) -> Multicast:
        group = bundle.topic
        before = self._sent.get(group, 0)
        self._clock.tick(group, self.member)
        self._sent[group] = self._clock.version
        return Multicast(bundle, 1, self.member, (), self._clock.since(before))

    def joined(self) -> None:
        """Send the whole clock with the next message to each group, because a new member has not seen earlier
        headers."""
        self._sent.clear()

    def entries(self, message: Multicast) -> Entries:
        group, sender = message.bundle.topic, message.sender
        return [
            ((column, member), number - (column == group and member == sender))
            for column, entries in message.clocks
            for member, number in entries
        ]

    def counted(self, message: Multicast) -> dict[str, int]:
        clocks = message.clocks
        return {group: number for group, entries in clocks for member, number in entries if member == self.member}


class CbcastBroker(MulticastBroker[Multicast]):
    def __init__(self, seat: BrokerSeat, options: MulticastOptions, rng: random.Random) -> None:
        order = CausalOrder(member_of(seat), options.held_back)
        super().__init__("cbcast", seat, order, Multicast, options)
