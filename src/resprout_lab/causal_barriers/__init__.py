"""Causal barriers: causal multicast with direct dependencies, along a tree.

*The documents.* R. Prakash, M. Raynal and M. Singhal, "An efficient causal ordering algorithm for mobile computing
environments" (ICDCS, 1996), chapter 5.2; as seed 001 cites it and implements it for comparison: Válter Emanuel
Trecitano da Costa Santos, "Localized Reliable Causal Multicast", master's thesis, 2019, sections 2.4.2 and 4.3.4.
docs/stacks/causal-barriers.md has a table of symbols and one of departures.

*Members and targets.* A member is one life of a broker: it multicasts the publications of its clients. A message names
its targets. Here these are all members that its sender knows; brokers tell each other who there is (`MembersKnown`). A
publication goes on over every link but the one it came over, and a client that subscribes or leaves changes nothing
between brokers. A broker that joins while a message is in transit gets it, too, and waits for everything that any
target waits for.

*Order* (`DirectOrder`). A message carries, for each target, which messages must be delivered there before it: its
direct dependencies. Dependencies of these are left out. So order holds over all topics, whatever path messages take.
`eventual` and `fifo` publications get causal order, too. `total` is not offered.

*Sizes* (`Barriers`). `paper_bytes` is 8 for each target and 8 for each dependency of each target. In the worst case
everybody has sent something that nobody has answered, and a header has N * N dependencies: 8 MB with 1,024 members. The
encoded header has the same form, a row for each target even where all rows are equal, because the stack exists to
compare that size. A header that does not fit into a frame is refused before it is made (`HeaderSizeError`). In a
simulator all brokers share one header, and all targets one row.

*Joining, copies, the path around a dead broker, faults and receipts* are those of `MulticastBroker`, as in `cbcast`: a
publication is delivered and `safe` when a second broker has it, one broker may die or fall silent, its
neighbours connect to each other, and its clients continue there and miss nothing.

*Departures.* Every member is a target of every message, because a client of a dead broker continues at another one,
which must know all that the client may have seen. So all rows of a header are equal, and of the paper's matrix
*Delivered* only the row of the member itself is kept (`DirectOrder` gives the reason).
"""

from resprout_lab.blocks.multicast.broker import multicast_stack
from resprout_lab.causal_barriers.broker import BarrierBroker, BarrierMulticast, MembersKnown

CAUSAL_BARRIERS = multicast_stack("causal-barriers", BarrierBroker, BarrierMulticast, (MembersKnown,))
