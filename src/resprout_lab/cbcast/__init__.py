"""CBCAST: causal broadcast with a vector clock for each group, along a tree.

*The documents.* Birman, Schiper and Stephenson, "Lightweight causal and atomic group multicast" (1991), sections 5.1
(one group), 6.1 (many groups) and the compression of 5.4 and 6.3; as the thesis on LoCaMu, "Localized Reliable Causal
Multicast", implements it to compare with (sections 2.4.1, 4.3.3 and 5.5): along a tree overlay, groups that never
change, no flush.

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
members has 4 KB; 1,024 entries that have all changed take 8 KB here and in the thesis.

*Joining.* Members of a group see the same view when views change by a flush. Here nobody waits for one: whoever joins
is told first what was counted before (`NotOwed`), and waits for nothing of that. Links are FIFO, so whatever its new
neighbour has not counted comes behind.

*Copies.* A publication is shown to clients, and `safe`, when a second broker has it (f = 1): otherwise a dead broker
could take along what others already depend on, and they would wait for ever (L6 of the corrections to the thesis).
Neighbours count for each other what has arrived (`Progress`), and each keeps what a neighbour may still owe to its
other neighbours.

*Around the dead.* Everybody knows the tree within two hops. When the host of a broker says that its process is gone,
its neighbours become links of each other, a circle that does no harm because repeats are dropped, and give each other
what the dead one may have owed (`Around`, `Flushed`). That is the thesis' framework: nobody repairs the tree. Clients
of the dead go on at its neighbours, when all has come there that they may have seen. They are told that they may have
missed something: what was on its way to them is not kept for them.

*Faults.* One broker may die, if its host says so; its return is not needed. Connections that break and come back lose
nothing. Not survived: two deaths before the first is bypassed, or at neighbours; hosts that fall silent, because then
nobody is known to be dead, and all wait. A broker that returns joins like a newcomer.

*Receipts.* `accepted`: its broker has it. `safe`: two brokers have it. `delivered` would need answers from everybody,
and is never said.

*Departures.* No views and no flush of a group when members change: the thesis left them out. Every broker is a member
of every group. Deaths are told by hosts, not guessed from silence: a living broker that is passed over would have to be
fenced. Names travel where the papers count numbers of 4 bytes, and acknowledgements, of which the thesis says nothing,
are sent and charged: what is really sent is in `bytes_sent`.
"""

from resprout_lab.blocks.multicast.stack import multicast_stack
from resprout_lab.cbcast.broker import CbcastBroker
from resprout_lab.cbcast.messages import Multicast

CBCAST = multicast_stack("cbcast", CbcastBroker, Multicast)
