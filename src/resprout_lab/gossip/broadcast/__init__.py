"""Gossip: a publication goes to all neighbours, theirs, and so on; what somebody lacks all the same it asks for.

*Eager push.* Whoever hears something new passes it on to all its neighbours but the one it came from. On an overlay
that hangs together, over links that lose nothing, that reaches everybody, in several copies.

*Recovery.* Everybody keeps what it heard of late (`store`). Two that become neighbours tell each other what they have
(`IHave`), and so does everybody to one of its neighbours now and then; what is missing is asked for (`Graft`). So what
was on its way while the overlay changed, or found no room, comes all the same, as long as somebody keeps it. Now and
then one that is no neighbour is told as well, and finds out whether the overlay is in parts (`apart`).

*Lazy push*, an option: the Plumtree of Leitao, Pereira and Rodrigues, "Epidemic broadcast trees" (2007). A neighbour
that brings a copy is told not to (`Prune`), and only tells from then on what there is (`IHave`, several at a time).
What is left is a tree. What was announced and does not come is asked for, and that link belongs to the tree again.
There is a tree for each publisher. With one for all, which is the paper's first choice, publications that come from
several sides at a time cut a circle in several places, and what falls apart is asked for, for ever: 40 copies instead
of 23, in a run of 24 brokers.
"""
