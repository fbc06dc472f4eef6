"""LoCaMu: localized causal multicast, along a tree in which everybody knows only those around.

*The document.* Santos, "Localized Reliable Causal Multicast" (thesis, 2019), chapter 3, with the choices of its
section 4.3.1: an entry without numbers marks who was passed over.

*Identifiers* (`identifiers`). A message has no number of its own. Each broker that passes it on counts it for every
broker within f + 1 hops ahead, and the numbers of the last 2f + 1 on its path travel along. Two copies that share one
are the same message, and their numbers are merged.

*Order* (`past`, `broker`). A message depends on what its sender had processed before: the matrix P, of the safe
neighbourhood of the receiver, as far as it has changed since the last message to it. It is processed when that is. So
order holds over all topics. What asks for `eventual` or `fifo` is given `causal`; `total` is not offered.

*Around the dead* (`tree`, `streams`). On the path to everybody within f + 1 hops a broker talks to the first that
lives, if the path is safe: at most f of its last 2f + 1 were passed over. Who begins to talk says what it has of
whom, and is sent the rest, also in the place of the dead.

*Collection* (`copies`, `reports`). A message is kept until all within f + 1 hops for whom it was numbered have it;
the gaps of R are closed by tokens that come from the source of the numbers, behind what it has sent.

*Recovery* (`journal`). What was processed is on disk before anybody can know it. A broker that starts again goes on
where it was, with its numbers and its place in the tree.

*Groups.* A group is a topic, and every broker is a member of every group, as in the thesis' experiments with one
group. The thesis does not say how groups change. Groups that some brokers are no members of would bring back what L6
rules out: a dependency of which only a dead broker has the message.

*Clients.* A node of the thesis is a broker here. Clients of a dead broker wait for its return: they turn to no other
one, so nobody else has to know what they had published or read. They are told that they may have missed something:
what was on its way to them is not kept. Receipts: `accepted`; `safe`, when f + 1 brokers have it; never `delivered`.

*Faults.* At most f of the brokers on any path of 2f + 1 are down at once, if their hosts say so; all return, with
their disks. Those that do not return cost their own clients everything and nobody else anything, but room: what they
are owed is kept, `buffer` messages of each source, and then all wait. Not survived: more at once, a lost disk,
silence.

*Corrections*, each a test in `tests/stacks/test_locamu_corrections.py`: a repeat is found before its numbers are
added (L1); a message does not depend on itself (L2); the order test looks at the receiver's own numbers and at the
sender's order, and safe paths are defined (L3); only the source of numbers lets them be skipped, in order (L4);
faults are bounded per path (L5); own numbers are named as dependencies only where the message went, too, and shown is
what f + 1 have (L6); what is told of R is charged (L7).

*Departures.* What a merged copy adds is sent on to those that had been sent it without (the thesis leaves that to
chance, and whoever depends on it waits). A dependency is one message, not all before it, because brokers may have
counted in different orders while others were passed over. What is sent for a dead broker goes in the order of the one
who sends it. Deaths are told by hosts, so nobody is suspected wrongly; the algorithm would bear it. How large a
header can become is in `pipeline.papers`.
"""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.stack import Stack
from resprout.stacks.survival import Survival
from resprout_lab.blocks.places import PlacesNear
from resprout_lab.blocks.tree import TREE_MESSAGES
from resprout_lab.locamu.broker import GUARANTEES, RECEIPTS, LocamuBroker
from resprout_lab.locamu.messages import (
    LOCAMU_MESSAGES,
    Carried,
    DeadBeyond,
    MissingRequest,
    PrefixesSkipped,
    ProcessedCounts,
)
from resprout_lab.locamu.options import LocamuOptions

_CLIENTS = "clients of a dead broker wait for its return, and are told that they may have missed something"
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
        Family.MEMBERSHIP: (*TREE_MESSAGES, PlacesNear, DeadBeyond),
        Family.REPORTS: (ProcessedCounts, PrefixesSkipped),
        Family.REPAIR: (MissingRequest,),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    survives=lambda options: Survival(
        options.f, 2 * options.f + 1, recovers_with_disk=True, returns_early=True, all_return=True, again=True
    ),
    keeps_records=lambda options: True,
    known_anomalies={"lost_told": _CLIENTS},
    known_limits={"lost": _CRASH},
)
