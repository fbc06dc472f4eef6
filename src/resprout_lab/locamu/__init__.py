"""LoCaMu: localized causal multicast, along a tree in which every broker knows only those around it.

*The document.* Seed 001: Válter Emanuel Trecitano da Costa Santos, "Localized Reliable Causal Multicast", master's
thesis, 2019, chapter 3, with the choices of its section 4.3.1: an entry without numbers marks a bypassed broker.
docs/stacks/locamu.md has a table of symbols and procedures, and one of departures.

*Identifiers* (*I*, `CountedPath`). A message has no number of its own. Each broker that forwards it counts it for every
broker within f + 1 hops ahead, and the numbers of the last 2f + 1 on its path travel along. Two copies that share one
are the same message, and their numbers are merged.

*Order* (*P* and *R*, `Past`; RECEIVE, `Algorithm`). A message depends on what its sender had processed
before: the matrix P, of the safe neighbourhood of the receiver, as far as it has changed since the last message to it.
It is processed when that is. So order holds over all topics. `eventual` and `fifo` publications get causal order, too.
`total` is not offered.

*Around dead brokers* (`SafeTree`; FORWARD and RETRANSMIT, `Algorithm`). On the path to every broker within f + 1 hops a
broker talks to the first that lives, if the path is safe: at most f of its last 2f + 1 were bypassed. Brokers that
begin to talk say what they have of whom, and are sent the rest, also in the place of dead brokers.

*Collection* (`SentSet`, `StabilityReports`). A message is kept until all brokers within f + 1 hops for which it was
numbered have it. The gaps of R are closed by tokens that come from the source of the numbers, behind what it has sent.

*Recovery* (`StateJournal`). What was processed is on disk before another broker can know it. A broker that starts again
continues with its numbers and its place in the tree.

*Groups* (`GroupRoutes`, section 3.2.2). A group is a topic. A broker is a member of the groups that its clients
subscribe to, and has a routing table: for each topic filter, who within f + 1 hops takes part. Only those are targets
of a message. The thesis has static groups; here subscription messages go from neighbour to neighbour, and a
subscription is confirmed when all brokers have recorded it. While a broker is down, no new subscription is confirmed
past it. Causal order holds across groups, because numbers and dependencies belong to pairs of brokers, not to groups.

*Clients* (`ReturningClients`). A node of the thesis is a broker here. Clients of a dead broker wait for its return, and
are given what they missed. No other broker has to know what they had published or read. Receipts: `accepted`; `safe`,
when f + 1 brokers have it; never `delivered`.

*Faults.* At most f of the brokers on any path of 2f + 1 are down at once: dead, silent, frozen or cut off; a broken
link counts as one. A suspicion may be false (`FailureDetector`). All return, with their disks. What depends on a
message that only a dead broker has waits for its return. A broker that does not return also costs its own clients
everything and the others room: what it is owed is kept, `buffer` messages of each source, and then all wait. Not
survived: more at once, a lost disk.

*Corrections* L1 to L7 and all departures, known errors among them, are in docs/stacks/locamu.md.
"""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.stack import Family, Stack, Survival, WaitTimes
from resprout_lab.blocks.groups import GROUP_MESSAGES
from resprout_lab.blocks.tree import TREE_MESSAGES, PlacesNear
from resprout_lab.locamu.broker import GUARANTEES, RECEIPTS, LocamuBroker, LocamuOptions
from resprout_lab.locamu.messages import (
    LOCAMU_MESSAGES,
    Carried,
    MissingRequest,
    PrefixesSkipped,
    ProcessedCounts,
    Unavailable,
)

_CRASH = "clients of a broker that never returns wait for it, and what it alone had is lost"

LOCAMU = Stack(
    name="locamu",
    guarantees=GUARANTEES,
    options=LocamuOptions,
    messages=CLIENT_MESSAGES + TREE_MESSAGES + LOCAMU_MESSAGES,
    make_broker=LocamuBroker,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (Carried,),
        Family.MEMBERSHIP: (*TREE_MESSAGES, *GROUP_MESSAGES, PlacesNear, Unavailable),
        Family.REPORTS: (ProcessedCounts, PrefixesSkipped),
        Family.REPAIR: (MissingRequest,),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    survives=lambda options: Survival(
        options.f,
        2 * options.f + 1,
        silent_hosts=True,
        freezes=True,
        clients_restart_at_home=True,
        cuts=True,
        recovers_with_disk=True,
        returns_early=True,
        all_return=True,
        again=True,
        joins=True,
    ),
    drawn={
        "f": (1, 1, 2, 3),
        "buffer": (10_000, 10_000, 10),
        "held_back": (100_000, 100),
        "suspect_us": (2_000_000, 100_000),
        "return_us": (30_000_000, 60_000_000),
    },
    waits=lambda options: WaitTimes(death_us=options.suspect_us, return_us=options.return_us),
    keeps_records=lambda options: True,
    known_limits={"lost": _CRASH},
)
