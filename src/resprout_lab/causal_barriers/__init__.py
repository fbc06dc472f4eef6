"""Causal barriers: causal multicast with direct dependencies, along a tree.

*The documents.* R. Prakash, M. Raynal and M. Singhal, "An efficient causal ordering algorithm for mobile computing
environments" (ICDCS, 1996), chapter 5.2; as seed 001 cites it and implements it for comparison: Válter Emanuel
Trecitano da Costa Santos, "Localized Reliable Causal Multicast", master's thesis, 2019, sections 2.4.2 and 4.3.4.
docs/stacks/causal-barriers.md has a table of symbols and one of departures.

*Members and targets.* A member is one life of a broker: it multicasts the publications of its clients. A message names
its targets: the members whose clients want its topic. Brokers tell each other who there is, and which topic filters
their clients have (`MembersKnown`). A publication goes over the links behind which its topic is wanted, as in `cbcast`.

*Order* (`DirectOrder`). A message carries, for each target, which messages must be delivered there before it: its
direct dependencies. Dependencies of these are left out. It also carries what other members have to wait for, in case
it is answered. So order holds over all topics, whatever path messages take. `eventual` and `fifo` publications get
causal order, too. `total` is not offered.

*Sizes* (`Barriers`). `paper_bytes` is 8 for each target and 8 for each dependency of each target. In the worst case
everybody has sent something that nobody has answered, and a header has N * N dependencies: 8 MB with 1,024 members. The
encoded header has the same form, a row for each target even where all rows are equal, because the stack exists to
compare that size. A header that does not fit into a frame is refused before it is made (`HeaderSizeError`). In a
simulator all brokers share one header, and all targets one row.

*Joining, copies, the path around a dead broker, faults and receipts* are those of `MulticastBroker`, as in `cbcast`: a
publication is delivered and `safe` when a second broker has it, one broker may die or fall silent, its
oldest neighbour takes its place, and its clients continue there and miss nothing.

*Departures.* A broker waits for the barriers of all targets and not only for its own, because it passes the message
on. Of the paper's matrix *Delivered* only the row of the member itself is kept, and that a sender has delivered what
its own row names (`DirectOrder`).
"""

from resprout_lab.blocks.multicast.broker import multicast_stack
from resprout_lab.causal_barriers.broker import BarrierBroker
from resprout_lab.causal_barriers.messages import BarrierMulticast, MembersKnown

CAUSAL_BARRIERS = multicast_stack("causal-barriers", BarrierBroker, BarrierMulticast, (MembersKnown,))
