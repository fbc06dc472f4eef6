"""HyParView: an overlay without a shape, in which everybody has a few neighbours and knows some others.

Leitao, Pereira and Rodrigues, "HyParView: a membership protocol for reliable gossip-based broadcast" (2007). The
*active view* of a member are its neighbours: sessions that stand, on which gossip travels, and which both ends have.
The *passive view* are members that it knows and has no session with; when a neighbour fails, one of them takes its
place.

*Joining.* Whoever joins asks a contact, which takes it as a neighbour in any case and tells its other neighbours. The
word goes on a random walk (`ForwardJoin`); where it ends the newcomer gets another neighbour, and on its way one member
remembers it.

*Agreeing.* Neighbours are agreed upon: one asks (`NeighbourRequest`), the other answers. A member whose view is full
declines, unless the one that asks is short of neighbours (`urgent`): then another neighbour is dropped. Requests are
numbered, so that an answer that comes too late is taken for nothing else; with FIFO sessions, views are symmetric
whenever nothing is on its way.

*Shuffling.* Now and then a member sends some of those it knows on a random walk, and is given as many by the one where
it ends. So passive views are samples of all members, and forget the dead.

*Departures from the paper.* A member that could not be reached is not forgotten at once, but called again now and then
(`lost`): two halves of a network that was cut in two find each other when it heals, which the paper leaves open. A
member is short when half of its neighbours are missing, not only when all are: three that have each other, and whom all
others decline, would stay apart for ever. Whoever joins or is dropped is told some others. Whoever asks waits for an
answer before the other is its neighbour, and keeps a place for it, in the order of names: in a circle of members that
ask each other, all would take another meanwhile, and withdraw. A contact that is not in the overlay itself lets
newcomers wait until it is.
"""
