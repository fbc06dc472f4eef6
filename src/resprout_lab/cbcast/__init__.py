"""CBCAST: causal broadcast with a vector clock for each group, along a tree.

*The documents.* K. Birman, A. Schiper and P. Stephenson, "Lightweight causal and atomic group multicast" (TOCS, 1991),
sections 5.1 (one group), 6.1 (many groups) and the compression of 5.4 and 6.3; as seed 001 cites it and implements it
for comparison: Válter Emanuel Trecitano da Costa Santos, "Localized Reliable Causal Multicast", master's thesis, 2019,
sections 2.4.1, 4.3.3 and 5.5. docs/stacks/cbcast.md has a table of symbols and one of departures.

*Groups and members.* A group is a topic. A member is one life of a broker: it multicasts the publications of its
clients. A broker asks its neighbours for the topics that its clients and the brokers behind it want
(`RecordedSubscriptions`), and a subscription is confirmed when all brokers have recorded it. A publication goes over
the links behind which its topic is wanted. If it is wanted nowhere else, one neighbour gets it as a second copy.

*Order* (`CausalOrder`). A publication carries how many messages of each member to each group its sender had delivered
before it, as far as that has changed since the sender's last message to the same group. It is delivered, and passed on,
when everything that it counts has been delivered here. So order holds over all topics. A broker marks the entries of
messages that did not go over the link, because nobody behind it wanted them (`skipped`): the other end counts these
without waiting. `eventual` and `fifo` publications get causal order, too. `total` is not offered.

*Sizes.* `Multicast.paper_bytes` is 4 for each group and 8 for each entry that has changed: 12 bytes for `G1[1:1]`, as
in the thesis' example. Its printed formula has 4 for each entry, and would give 8.

*Joining.* CBCAST changes views by a flush. Here a broker that joins, or becomes a member of a group, does not wait for
earlier messages, because they are marked as skipped on its link.

*Copies.* A publication is delivered to clients, and `safe`, when a second broker has it (f = 1). Otherwise a dead
broker could take along what others already depend on, and they would wait for ever (L6 of the corrections to seed 001).
Neighbours count for each other what has arrived (`Progress`), and each keeps what a neighbour may still owe to others.

*Around a dead broker* (`BypassTree`). Every broker knows the tree within two hops. When the host of a broker reports
that its process is gone, or the failure detector suspects it, its oldest neighbour takes its place. All others connect
to that one, and send it what the dead broker may have owed (`Around`, `Flushed`). Clients of the dead broker continue
there, when everything has come that they may have seen, and are handed over what they have not received.

*Faults.* One broker may die, fall silent or freeze. Not survived: two deaths of neighbours or before the first is
bypassed; a broken link, which is two. A broker that was suspected and lives begins another life. A broker that returns
joins like a newcomer.

*Receipts.* `accepted`: the publisher's broker has it. `safe`: two brokers have it. `delivered` is never sent.
"""

from resprout_lab.blocks.multicast.broker import multicast_stack
from resprout_lab.cbcast.broker import CbcastBroker, Multicast

CBCAST = multicast_stack("cbcast", CbcastBroker, Multicast)
