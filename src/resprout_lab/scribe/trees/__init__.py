"""Scribe: a tree for each topic, grown by those who want it along the ways that lead to the topic's root.

Castro and others, "Scribe: a large-scale and decentralized application-level multicast infrastructure" (2002), as the
second phase of seed 004 has it, with its corrections S1 and S2. The ways are those of a ring (`overlay.chord`); who the
root is, is for the owner of this part to say.

*Growing.* Whoever wants a topic asks the next one on its way to the root to be its parent (`JoinTree`). That one has a
child from then on, asks on if it is not in the tree itself, and answers when it is (`TreeJoined`). So a tree comes
alive from its root, and a wish that is confirmed has a way from there. These are three steps, each with its state (S2):
what is wanted here, who the parent is, who the children are.

*Out of the tree.* Whoever has lost its way, a root that is one no more included, tells those below, and they those
below them: all wait until there is a way again, and meanwhile nobody below is told to be in the tree.

*Spreading.* The root numbers what it spreads, without gaps: its position. Everybody passes on to all its children (S1),
in that order, what came from the parent. A position that was met before is a repeat.

*Repairing.* Whoever loses its parent asks the next one on its way, and keeps its children. A parent tells its position,
so a child knows what it missed in between, and asks the root for it (`AskMissed`); so it does when a position is left
out. The root's signs of life (`TreeBeat`) go down the tree: whoever has not heard one for a while is not in the tree,
whatever its parent believes, and looks for another way. That also ends circles, which can form while the ring changes.

*Pruning.* Who wants a topic no more, and has no children in its tree, leaves it.

*Departures.* In the paper the root spreads what it is given and repairs lose what was on its way; here positions and
the root's memory make good for that. Signs of life go down from the root, not only from each parent.
"""
