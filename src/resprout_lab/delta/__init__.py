"""Delta-fault-tolerant publish/subscribe: content-based routing around up to delta dead brokers in a row.

*The documents.* Seed 002: Reza Sherafat Kazemzadeh and Hans-Arno Jacobsen, "Delta-Fault-Tolerant Publish/Subscribe
Systems", Technical Report CSRG-570, University of Toronto, 2007. Partition islands and barriers, one publication in
transit per publisher and 8 bytes for each entry of a header are those of its successor (SRDS 2011), as sections 2.3.3
and 4.3.2 of seed 001 describe it. docs/stacks/delta.md has a table of symbols, messages and algorithms, and one of
departures.

*Consistency.* Every broker knows the tree within delta + 1 hops, and every subscription, with the broker of the
subscriber or the one on the path to it that is delta + 1 hops away (`source_at`, `KnownSubscriptions`).

*Forwarding* (`ReliableForwarding`; Algorithm 1). A message goes to the nearest living broker on the path to each
recipient, and is kept until all of them have confirmed it; then it is confirmed to its sender. So a confirmed
subscription is known to everybody, and a confirmed publication is with everybody. Clients are told `Subscribed` and
`safe` then. Publishers have a window of unconfirmed publications (`OwnPublications`).

*Faults* (`KnownTree`; Algorithms 3 and 4). Dead brokers are bypassed: those beyond are connected, and everything that
was not confirmed is sent to them, in order. Duplicates are detected by the last delta + 1 brokers that a message has
visited (`NewestSeen`). More dead brokers in a row are a barrier (`PartitionTable`). A neighbour of dead brokers sends
on what only they and it had (`Orphans`).

*Recovery* (`RecoveringTree`; Algorithms 2 and 5 to 7). A broker that starts, for the first time or again, learns the
tree and the subscriptions from the nearest living broker in each direction, takes part with guided messages meanwhile,
and tells everybody within delta + 1 hops that it is back.

*Assumptions.* At most delta brokers are not operational at once, in the whole network: dead, or recovering. A silent
broker is suspected (`FailureDetector`), and begins another life if it lives. Of the brokers that knew a broker's place,
one lives when it returns.

*Clients of a dead broker* continue at others near it, the nearest first, as soon as these have bypassed it, and miss
nothing (`returning`). They publish again what was not safe, and it is delivered once.

*Departures.* The nine corrections D1 to D9 and all departures are in docs/stacks/delta.md. The most visible one: a
publication is delivered when it arrives, not when those beyond have confirmed it, because with a window that would
change the order; only its own broker delivers it last. `delivered` is never sent: brokers confirm, not readers.
"""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.stack import Family, Stack, Survival, WaitTimes
from resprout_lab.blocks.crossing import Progress
from resprout_lab.delta.broker import GUARANTEES, RECEIPTS, DeltaBroker
from resprout_lab.delta.messages import (
    DELTA_MESSAGES,
    MeetRequest,
    NodeStatus,
    NotKnown,
    RoutedClaim,
    RoutedCopies,
    RoutedHandover,
    RoutedHeal,
    RoutedPublication,
    RoutedRejoin,
    RoutedSubscription,
    RoutedUnsubscription,
    RoutesConfirmed,
    SyncRequest,
    SyncSnapshot,
)  # fmt: skip
from resprout_lab.delta.operations import DeltaOptions

_CRASH = "delta brokers may be down at once: beyond a row of more nobody is reached"

DELTA = Stack(
    name="delta",
    guarantees=GUARANTEES,
    options=DeltaOptions,
    messages=CLIENT_MESSAGES + DELTA_MESSAGES,
    make_broker=DeltaBroker,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (RoutedPublication, RoutedCopies),
        Family.REPORTS: (RoutesConfirmed, Progress),
        Family.SUBSCRIPTIONS: (RoutedSubscription, RoutedUnsubscription, RoutedHeal),
        Family.MEMBERSHIP: (RoutedRejoin, NodeStatus, NotKnown, SyncRequest, SyncSnapshot),
        Family.REPAIR: (MeetRequest, RoutedClaim, RoutedHandover),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    survives=lambda options: Survival(
        faults=options.delta,
        least=options.delta + 1,
        silent_hosts=True,
        freezes=True,
        clients_restart_at_home=True,
        joins=True,
        recovers_with_disk=True,
        recovers_without_disk=True,
        returns_early=True,
    ),
    drawn={
        "delta": (1, 1, 2, 3, 0),
        "window": (64, 1, 4),
        "buffer": (10_000, 10_000, 10),
        "suspect_us": (4_000_000, 6_000_000),
        "return_us": (30_000_000, 60_000_000),
    },
    waits=lambda options: WaitTimes(death_us=options.suspect_us, return_us=options.return_us),
    known_limits={"lost": _CRASH, "lost_told": "with return_us = 0 nothing is kept for clients of a dead broker"},
)
