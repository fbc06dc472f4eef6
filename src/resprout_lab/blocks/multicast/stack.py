"""What causal multicasts have in common when they are registered: what they offer, survive and say."""

import random
from collections.abc import Callable
from typing import Final

from resprout.core.contract import Machine
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.stack import BrokerSeat, Stack, WaitTimes
from resprout.stacks.survival import Survival
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.multicast.broker import GUARANTEES, RECEIPTS
from resprout_lab.blocks.multicast.messages import MULTICAST_MESSAGES, Around, Flushed, MulticastMessage, NotOwed
from resprout_lab.blocks.multicast.options import MulticastOptions
from resprout_lab.blocks.places import PlacesNear
from resprout_lab.blocks.tree import TREE_MESSAGES

_CLIENTS_TOLD: Final = (
    "clients of a dead broker go on at its neighbours, and are told that they may have missed something"
)
_ONE_DEATH: Final = (
    "one broker may die: what two neighbours had that died together is lost, and what depends on that waits"
)


def multicast_stack(
    name: str,
    make_broker: Callable[[BrokerSeat, MulticastOptions, random.Random], Machine],
    carrier: type[MulticastMessage],
    about_members: tuple[type, ...] = (),
) -> Stack[MulticastOptions]:
    """`carrier` brings publications; `about_members` is what else its brokers say to each other."""
    return Stack(
        name=name,
        guarantees=GUARANTEES,
        options=MulticastOptions,
        messages=(*CLIENT_MESSAGES, *TREE_MESSAGES, *MULTICAST_MESSAGES, carrier, *about_members),
        make_broker=make_broker,
        receipts=RECEIPTS,
        families={
            Family.PUBLICATIONS: (carrier,),
            Family.MEMBERSHIP: (*TREE_MESSAGES, NotOwed, PlacesNear, *about_members),
            Family.REPORTS: (Progress,),
            Family.REPAIR: (Around, Flushed),
            Family.CLIENTS: CLIENT_MESSAGES,
        },
        layers={"resprout_lab.blocks.crossing": "order"},
        survives=lambda options: Survival(
            faults=1, silent_hosts=True, freezes=True, clients_restart_at_home=True, joins=True
        ),
        drawn={"buffer": (10_000, 10_000, 10), "held_back": (100_000, 100), "suspect_us": (4_000_000, 6_000_000)},
        waits=lambda options: WaitTimes(death_us=options.suspect_us),
        known_anomalies={"lost_told": _CLIENTS_TOLD},
        known_limits={"lost": _ONE_DEATH},
    )
