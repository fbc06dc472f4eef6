"""Ginger: a tree of brokers with a delivery guarantee for each message, which repairs itself; the baseline.

*The document.* Seed 000: Paulo César Leite de Matos, "Fault-Tolerant Publish-Subscribe System With Multiple Delivery
Guarantees", master's thesis, NOVA University Lisbon, 2024. The files follow its chapters, and functions carry the names
and numbers of its algorithms:

| file | in the thesis |
|---|---|
| `state` | 3.3, the data structures; 4.3.2, buffers; 4.2.2, the tree view: Algorithms 1 and 2; the options |
| `dissemination` | 3.1, workers; 3.5, processing; Algorithm 9, holding |
| `total_order` | 3.5, total order; Algorithms 13 and 14 |
| `overlay` | 4.2.3 and 4.2.4: Algorithms 3 to 8; 4.2.2.1 and 4.2.3.1, clients |
| `reconfiguration` | 4.3: Algorithms 9 to 12 |
| `root_order` | a correction of `total_order` |

Two presets: `corrected = "none"` is the system as published, `corrected = "all"` (the default) removes what is wrong
with it, but for one thing. docs/stacks/ginger.md lists the corrections, each with the anomaly that it removes.

*The barrier anomaly (G13)* stays. A publication that names a key may be on its way up the tree when the root has
already locked that key for a total. Its own side of the tree delivered it before the total; everybody else delivers it
after. The judge reports it under `barrier` (and a bank's replicas under `bank_balance`).

*Receipts.* The thesis has none. `accepted`: the broker of the publisher has it. `safe`: the client need not keep it any
longer, because it was processed `keep_us` ago. `delivered` is never told.
"""

from typing import Final

from resprout.core.guarantee import Guarantee
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.spread.messages import InterestConfirmed, Uninterested
from resprout.stacks.stack import Family, Stack, Survival, WaitTimes
from resprout_lab.ginger.broker import GingerBroker
from resprout_lab.ginger.messages import (
    GINGER_MESSAGES,
    PUBLICATION_MESSAGES,
    REPAIR_MESSAGES,
    VIEW_MESSAGES,
    Subscribe,
)  # fmt: skip
from resprout_lab.ginger.state import RECEIPTS, GingerOptions

_BARRIER: Final = (
    "the barrier of the thesis was left as it is: a publication that meets a lock on its way up was delivered at "
    "home before the total, and is delivered after it everywhere beyond"
)
_BOOKS: Final = "follows from the barrier anomaly: replicas of the bank saw different things before a total"
_SUBSCRIPTIONS: Final = (Subscribe, InterestConfirmed, Uninterested)

GINGER = Stack(
    name="ginger",
    guarantees=tuple(Guarantee),
    options=GingerOptions,
    messages=CLIENT_MESSAGES + GINGER_MESSAGES + (InterestConfirmed, Uninterested),
    make_broker=GingerBroker,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: PUBLICATION_MESSAGES,
        Family.SUBSCRIPTIONS: _SUBSCRIPTIONS,
        Family.MEMBERSHIP: VIEW_MESSAGES,
        Family.REPAIR: REPAIR_MESSAGES,
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    waits=lambda options: WaitTimes(death_us=options.timer_us, return_us=options.keep_us),
    survives=lambda options: Survival(faults=1),
    drawn={
        "total_degree": (2, 3, 4, 1_000),
        "timer_us": (2_000_000, 3_000_000),
        "max_hops": (2, 3, 5),
        "keep_us": (30_000_000,),  # the slowest tree that is drawn takes 16 s for a repair
        "work_us": (0, 0, 200),
        "workers": (2, 10),
    },
    known_anomalies={"barrier": _BARRIER, "bank_balance": _BOOKS, "bank_outcome": _BOOKS, "bank_replay": _BOOKS},
    known_limits={"lost": "nothing is promised for what a broker no longer keeps when somebody asks for it"},
)
