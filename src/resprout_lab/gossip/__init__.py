"""Gossip: every broker is a peer, and everything goes to everybody by way of random neighbours.

*The documents.* Seed 004: Emanuele Vivoli, Joao Miguel Costa and Pedro Guilherme Silva, "ASD Project Phase 3", NOVA FCT
and University of Florence, 2019, first phase: "a Gossip Broadcast protocol with Recovery mechanisms" on HyParView
(Leitao, Pereira and Rodrigues, DSN 2007). The report only names it; the protocols are those of the papers (`HyParView`,
`Gossip`), and all parameters are *chosen*. docs/stacks/gossip.md has a table of names and one of departures.

*Promise.* `eventual`, and with a probability: an owed delivery arrives if the overlay is connected and a connected
broker still keeps the publication. Nothing comes twice. The judge reports the share that arrived; without faults it is
1.

*Joining.* A broker joins through its parent or its contacts, in the order in which they were given. It serves clients
when a serving neighbour has told it what there is: it is not owed that, and does not ask for it. A broker that hears
nothing of the kind serves after a while anyway. Parts of a network that do so find each other later, and so do parts in
which everybody has enough neighbours.

*Receipts.* `accepted`: the publisher's broker has it and has queued it on its links. `safe` means the same here: it
survives the crash of no broker for certain (f = 0). `delivered` is never sent.

*Faults.* Any broker may die, fall silent, be cut off, leave and return; any number may join. A dead broker takes with
it what only it had, and what its clients were not given yet; they continue at a neighbour, and are told that they may
have missed messages. Nobody waits for anybody, and nobody is fenced.
"""

from resprout.core.guarantee import Reliability
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.stack import Family, Stack, Survival, WaitTimes
from resprout_lab.gossip.broadcast import GOSSIP_MESSAGES, Gossiped, Graft, IHave, Prune
from resprout_lab.gossip.broker import GUARANTEES, RECEIPTS, GossipBroker
from resprout_lab.gossip.hyparview_messages import HYPARVIEW_MESSAGES
from resprout_lab.gossip.options import GossipOptions

FAULTS = 3
"""Brokers that a swarm strikes at once, most of a small network left: clients must find somebody. What is survived has
no bound; what comes of it is a matter of shares."""

GOSSIP = Stack(
    name="gossip",
    guarantees=GUARANTEES,
    options=GossipOptions,
    messages=CLIENT_MESSAGES + HYPARVIEW_MESSAGES + GOSSIP_MESSAGES,
    make_broker=GossipBroker,
    reliability=Reliability.PROBABLE,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (Gossiped,),
        Family.REPORTS: (IHave, Prune),
        Family.MEMBERSHIP: HYPARVIEW_MESSAGES,
        Family.REPAIR: (Graft,),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    layers={"resprout_lab.gossip.hyparview": "overlay", "resprout_lab.gossip.broadcast": "spread"},
    drawn={
        "lazy": (False, True),
        "active": (5, 5, 5, 2),
        "passive": (30, 30, 4),
        "link_bytes": (4 << 20, 1),
        "store_bytes": (16 << 20, 16 << 20, 16 << 20, 10_000),
    },
    waits=lambda options: WaitTimes(death_us=options.silent_us + options.answer_us + 2 * options.shuffle_us),
    survives=lambda options: Survival(
        FAULTS, majority=True, silent_hosts=True, freezes=True, cuts=True, partitions=True, joins=True, leaves=True,
        recovers_with_disk=True, recovers_without_disk=True, returns_early=True, again=True,
    ),
)  # fmt: skip
