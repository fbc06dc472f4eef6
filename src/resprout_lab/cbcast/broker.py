"""One broker of CBCAST: that of any causal multicast, with its order."""

import random

from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.multicast.broker import MulticastBroker, MulticastOptions, member_of
from resprout_lab.cbcast.causal import CausalOrder
from resprout_lab.cbcast.messages import Multicast


class CbcastBroker(MulticastBroker[Multicast]):
    def __init__(self, seat: BrokerSeat, options: MulticastOptions, rng: random.Random) -> None:
        order = CausalOrder(member_of(seat), options.held_back)
        super().__init__("cbcast", seat, order, Multicast, options)
