"""Causal barriers: causal multicast with direct dependencies, along a tree.

*The documents.* Prakash, Raynal and Singhal, "An efficient causal ordering algorithm for mobile computing environments"
(1996), section 5.2; as the thesis on LoCaMu, "Localized Reliable Causal Multicast", implements it to compare with
(sections 2.4.2 and 4.3.4): along a tree overlay, groups that never change.

*Members and targets.* A member is one life of a broker: it multicasts what its clients publish. A message names its
targets. Here these are all members that its sender knows of, as in the thesis' setting of one group for everybody;
brokers tell each other who there is (`MembersKnown`). A publication goes on over every link but the one it came over,
and a client that subscribes or leaves changes nothing between brokers. Whoever joins while a message is on its way is
given it all the same, and waits for all that its targets wait for.

*Order* (`direct`). With a message goes, for each target, which messages must be delivered there before it: those on
which it depends directly. What one of these depends on is left out. So order holds over all topics, whatever way
messages take. All are treated alike: what asks for `eventual` or `fifo` is given `causal`. `total` is not offered.

*Sizes* (`header`). `paper_bytes` is 8 for each target and 8 for each dependency of each target. At its worst everybody
has sent something that nobody has answered, and a header has N * N dependencies: 8 MB with 1,024 members. What travels
has the same form: a row for each target, even where all rows are equal, because that is what the comparison is about;
at 511 brokers that is 2.3 MB and more. A header that finds no room in a frame is refused before it is made
(`HeaderSizeError`). In a simulator all brokers share one header, and all targets one row.

*Joining, copies, the way around the dead, faults and receipts* are those of `stacks.multicast`, as in `stacks.cbcast`:
a publication is shown and `safe` when a second broker has it, one broker may die if its host says so, its neighbours
become links of each other, and its clients go on there. L6 of the corrections to the thesis holds for it as well.

*Departures.* Every member is a target of every message: a client whose broker is dead goes on at another one, which
must know all that the client may have seen. By that all rows of a header are equal, and the matrix `Delivered` of the
paper removes nothing that direct dependencies do not (`direct` has the reason); its row for the member itself is kept.
Names travel where the papers count numbers of 4 bytes, and acknowledgements, of which the thesis says nothing, are sent
and charged: what is really sent is in `bytes_sent`.
"""

from resprout_lab.blocks.multicast.stack import multicast_stack
from resprout_lab.causal_barriers.broker import BarrierBroker
from resprout_lab.causal_barriers.messages import BarrierMulticast, MembersKnown

CAUSAL_BARRIERS = multicast_stack("causal-barriers", BarrierBroker, BarrierMulticast, (MembersKnown,))
