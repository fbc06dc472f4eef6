"""CBCAST: causal broadcast with a vector clock for each group, along a tree.

*The documents.* Birman, Schiper and Stephenson, "Lightweight causal and atomic group multicast" (1991), sections 5.1
(one group), 6.1 (many groups) and the compression of 5.4 and 6.3; as the thesis on LoCaMu, "Local Causal Multicast",
implements it to compare with (sections 2.4.1, 4.3.3 and 5.5): along a tree overlay, groups that never change, no flush.

*Groups and members.* A group is a topic. A member is one life of a broker: it multicasts what its clients publish.
Every broker is a member of every group, so a publication goes on over every link but the one it came over, and a client
that subscribes or leaves changes nothing between brokers. That is the thesis' setting of one group for everybody; its
groups of subtrees differ by who publishes to which topic, and by who reads it.

*Order* (`causal`). A publication carries how many messages of each member to each group its sender had delivered before
it, as far as that has changed since the sender's last message to the same group. It is passed on at once and shown when
everything that it counts has been delivered here. So order holds over all topics, whatever way messages take. All are
counted alike: what asks for `eventual` or `fifo` is given `causal`. `total` is not offered.

*Sizes.* `Multicast.paper_bytes` is 4 for each group and 8 for each entry that has changed: 12 bytes for `G1[1:1]`, as
in the thesis' example. Its printed formula says 4 for each entry, and would give 8. Not compressed, a group of 1,024
members has 4 KB (`order.vector_clock.paper_bytes_whole`); 1,024 entries that have all changed take 8 KB here and in the
thesis.

*Joining.* Members of a group see the same view when views change by a flush. Here nobody waits for one: whoever joins
is told first what was counted before (`NotOwed`), and waits for nothing of that. Links are FIFO, so whatever its new
neighbour has not counted comes behind.

*Receipts.* `accepted`: its broker has it, and has handed it to its links. `safe` says no more than that here: it
survives the crash of no broker (f = 0). `delivered` would need answers from everybody, and is never said.

*Departures.* No views, no flush and no k-stability: the thesis left them out. Brokers that die are not bypassed, though
the thesis' framework connects the neighbours of a dead node: see below. Names travel where the papers count numbers of
4 bytes; what is really sent is in `bytes_sent`.

*Faults.* None are survived. Connections that break and come back lose nothing. With a broker goes what only it had, and
what is published meanwhile does not pass its place; messages that count what was lost wait, and are not shown, until
the broker is back and `NotOwed` tells both sides what not to wait for. Its clients go on at a neighbour, and are told
that they may have missed something. To connect its neighbours would not be enough: what it should have passed on has to
be kept by others until it is stable (k-stability), shown to nobody before, and its clients may only be served by
brokers that have what those clients have seen.
"""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.cbcast.broker import GUARANTEES, RECEIPTS, CbcastBroker
from resprout.stacks.cbcast.messages import CBCAST_MESSAGES, Around, Flushed, Got, Multicast, Neighbours, NotOwed
from resprout.stacks.cbcast.options import CbcastOptions
from resprout.stacks.families import Family
from resprout.stacks.shell.tree import TREE_MESSAGES
from resprout.stacks.stack import Stack
from resprout.stacks.survival import Survival

_CLIENTS = "clients of a dead broker go on at its neighbours, and are told that they may have missed something"
_CRASH = "no broker may die: what only it had, or should have passed on, is lost, and what depends on that waits"

CBCAST = Stack(
    name="cbcast",
    guarantees=GUARANTEES,
    options=CbcastOptions,
    messages=CLIENT_MESSAGES + TREE_MESSAGES + CBCAST_MESSAGES,
    make_broker=CbcastBroker,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (Multicast,),
        Family.MEMBERSHIP: (*TREE_MESSAGES, NotOwed, Neighbours),
        Family.REPORTS: (Got,),
        Family.REPAIR: (Around, Flushed),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    survives=lambda options: Survival(faults=1),
    known_anomalies={"lost_told": _CLIENTS},
    known_limits={"lost": _CRASH},
)
