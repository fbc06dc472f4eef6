"""Ginger: a tree of brokers that keeps a delivery guarantee for each message, and repairs itself; the baseline.

*The document.* Seed 000: Paulo César Leite de Matos, "Fault-Tolerant Publish-Subscribe System With Multiple Delivery
Guarantees", master's thesis, NOVA University Lisbon, 2024. docs/stacks/ginger.md has a table of its symbols, messages
and algorithms, and one of all departures.

*Structure.* Brokers form a tree; clients hang on brokers. A subscription spreads from its broker to all others, and
publications travel back along it. Every broker knows its ancestors up to `max_hops`, its siblings, its children's
children, and in which order the root's children succeed it (`View`).

*Publications.* Links are FIFO and the tree has no cycles, so forwarding in order of arrival gives FIFO and causal order
(`GingerCore`, `Intake`). Every broker on the way keeps a publication until it is delivered everywhere (`WindowEntry`)
and applies back-pressure to a source with too many of them. A total goes up to the root, which orders it. Every broker
on the way down locks its keys and acknowledges. The root then has it processed, and the keys are free (`GingerTotals`).

*Failures.* A broker is dead when its host refuses connections, or when it was silent for the timer. Its children ask
its parent for a place, then their siblings, then break the degree (`Seeker`). The parent collects what all of them
have, and sends everybody on from the same cut (`Leader`, `GingerHandover`). When the root dies, the next in its
published order does this, and continues the totals in progress. Clients of a dead broker go where it told them, and get
what they missed (`GingerClients`). The stack survives crashes of one broker at a time in any neighbourhood. A broker
that is wrongly declared dead is told, and begins a new life as a leaf.

*Corrections* G1 to G16 to the thesis' pseudocode are in docs/stacks/ginger.md, each with the test that protects it. One
error of the thesis is left in on purpose:

*The barrier anomaly (G13).* A publication that names a key may be on its way up the tree when the root has already
locked that key for a total. Its own side of the tree delivered it before the total. The broker where the key is locked
holds it until the total is processed, so everybody else delivers it after. Without any fault, subscribers disagree
about the order of both. The judge reports it under `barrier` (and a bank's replicas under `bank_balance`).

*Departures* that matter most: a client's messages wait behind its own undelivered total, whatever their keys
(`GingerClients.drain`); a total locks its keys at every broker; one leader synchronises all orphans.
"""

from typing import Final

from resprout.core.guarantee import Guarantee
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.stack import Stack, WaitTimes
from resprout.stacks.survival import Survival
from resprout_lab.blocks.asking import ASKING_MESSAGES
from resprout_lab.ginger.broker import GingerBroker
from resprout_lab.ginger.messages import (
    GINGER_MESSAGES,
    PUBLICATION_MESSAGES,
    REPAIR_MESSAGES,
    VIEW_MESSAGES,
    Passed,
    Progress,
)
from resprout_lab.ginger.options import GingerOptions

_BARRIER: Final = (
    "the barrier of the baseline was left as it is: a publication that meets a lock on its way up was delivered at "
    "home before the total, and is delivered after it everywhere beyond"
)
_BOOKS: Final = "follows from the barrier anomaly: replicas of the bank saw different things before a total"

GINGER = Stack(
    name="ginger",
    guarantees=tuple(Guarantee),
    options=GingerOptions,
    messages=CLIENT_MESSAGES + GINGER_MESSAGES + ASKING_MESSAGES + (Progress,),
    make_broker=GingerBroker,
    families={
        Family.PUBLICATIONS: PUBLICATION_MESSAGES,
        Family.REPORTS: (Passed, Progress),
        Family.SUBSCRIPTIONS: ASKING_MESSAGES,
        Family.MEMBERSHIP: VIEW_MESSAGES,
        Family.REPAIR: REPAIR_MESSAGES,
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    layers={"resprout_lab.blocks.crossing": "order"},
    waits=lambda options: WaitTimes(death_us=options.timer_us, return_us=options.client_timer_us),
    survives=lambda options: Survival(
        faults=1, silent_hosts=True, freezes=True, joins=True, recovers_with_disk=True, recovers_without_disk=True,
    ),
    known_anomalies={"barrier": _BARRIER, "bank_balance": _BOOKS, "bank_outcome": _BOOKS, "bank_replay": _BOOKS},
    known_limits={"lost": "the baseline promises nothing for what only two neighbours had that died together"},
)  # fmt: skip
