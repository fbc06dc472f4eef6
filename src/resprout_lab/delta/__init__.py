"""Delta-fault-tolerant publish/subscribe: content-based routing around up to delta dead brokers in a row.

*The documents.* Kazemzadeh and Jacobsen, "Delta-fault-tolerant publish/subscribe systems" (CSRG-570, 2007), all of
it; and what the thesis on LoCaMu says of its successor, which it calls "Delta-Neighbourhood" (section 2.3.3):
partition islands and barriers, one publication in transit per publisher, 8 bytes for each entry of a header (section
4.3.2).

*Consistency.* Everybody knows the tree within delta + 1 hops, and every subscription, with the broker of the
subscriber or the one on the way there that is delta + 1 hops away (`recipients`, `subscriptions`).

*Forwarding* (`forwarding`; Algorithm 1). A message goes to the nearest living broker on the path to each recipient,
and is kept until all of them have confirmed it; then it is confirmed to whoever sent it. So a confirmed subscription
is known to everybody, and a confirmed publication is with everybody. Clients are told `Subscribed` and `safe` then,
and not before. Publishers have a window of unconfirmed publications; 1 is what the thesis measured (`publishing`).

*Faults* (`tree`; Algorithms 3 and 4). The dead are passed over: those beyond are called, and whatever was not
confirmed is sent to them, in order. Copies are known by the last delta + 1 brokers that they have visited
(`visited`). More dead in a row are a barrier (`partitions`). What only the dead and a neighbour had is seen to by
that neighbour (`orphans`).

*Recovery* (`recovery`; Algorithms 5 to 7). Whoever begins, for the first time or again, learns the tree and the
subscriptions from the nearest living broker in each direction, takes part with guided messages meanwhile, and tells
everybody within delta + 1 hops that it is back.

*Assumptions.* At most delta brokers are not operational at once, in the whole network: dead, or not through with
their recovery. Hosts say when a process is gone; silence is no death. Of those who knew a broker's place, one lives
when it returns. Nodes of the report that are clients are clients here: they hang on brokers, and stand in nobody's
tree.

*What a dead broker's living clients get.* They go on at others near it, the nearest first, as soon as these have
passed it over; what they had published and was not safe they publish again, and it is shown once. They subscribe
again, and are told that they may have missed something: what was on its way to them is not kept for them.

*Departures.* The nine mistakes of the report's pseudocode are corrected (D1 to D9, docs/stacks/delta.md). A
subscription counts for routing as soon as it is heard of, and is promised to nobody before it is confirmed. A
publication is shown when it comes, not when those beyond have confirmed it, because with a window that would change
the order; only where it was published it is shown last. A newcomer and one that returns begin alike. A recovering
broker confirms when it has its answers. Barriers are known to their detectors only. Snapshots are not sent with low
priority. `delivered` is not told: confirmations are given by brokers and not by readers.
"""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.stack import Stack
from resprout.stacks.survival import Survival
from resprout_lab.delta.broker import GUARANTEES, RECEIPTS, DeltaBroker
from resprout_lab.delta.messages import (
    DELTA_MESSAGES,
    MeetRequest,
    NodeStatus,
    NotKnown,
    RoutedHeal,
    RoutedPublication,
    RoutedRejoin,
    RoutedSubscription,
    RoutedUnsubscription,
    RoutesConfirmed,
    SyncRequest,
    SyncSnapshot,
)  # fmt: skip
from resprout_lab.delta.options import DeltaOptions

_CLIENTS = "clients of a dead broker go on at others near it, and are told that they may have missed something"
_CRASH = "delta brokers may be down at once: beyond a row of more nobody is reached"

DELTA = Stack(
    name="delta",
    guarantees=GUARANTEES,
    options=DeltaOptions,
    messages=CLIENT_MESSAGES + DELTA_MESSAGES,
    make_broker=DeltaBroker,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (RoutedPublication,),
        Family.REPORTS: (RoutesConfirmed,),
        Family.SUBSCRIPTIONS: (RoutedSubscription, RoutedUnsubscription, RoutedHeal),
        Family.MEMBERSHIP: (RoutedRejoin, NodeStatus, NotKnown, SyncRequest, SyncSnapshot),
        Family.REPAIR: (MeetRequest,),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    survives=lambda options: Survival(
        faults=options.delta, joins=True, recovers_with_disk=True, recovers_without_disk=True, returns_early=True
    ),
    known_anomalies={"lost_told": _CLIENTS},
    known_limits={"lost": _CRASH},
)
