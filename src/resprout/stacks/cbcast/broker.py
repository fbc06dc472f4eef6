"""One broker of CBCAST: that of any causal multicast, with its order."""

import random

from resprout.stacks.cbcast.causal import CausalOrder
from resprout.stacks.cbcast.messages import Multicast
from resprout.stacks.multicast.broker import MulticastBroker, member_of
from resprout.stacks.multicast.options import MulticastOptions
from resprout.stacks.stack import BrokerSeat


class CbcastBroker(MulticastBroker[Multicast]):
    def __init__(self, seat: BrokerSeat, options: MulticastOptions, rng: random.Random) -> None:
        order = CausalOrder(member_of(seat), options.held_back)
        super().__init__("cbcast", seat, order, Multicast, options.buffer)
