"""Flood: everything goes everywhere, once, along a tree that is never repaired.

*The document.* No seed describes this system as a whole. Its routing is that of sections 4.1 and 4.2 of seed 003: Luis
Neves, Pedro do Vale and Ricardo Abreu, "Distributed and Reliable Publish-Subscribe System", Instituto Superior Técnico,
2015/16. docs/stacks/flood.md has a table of names and one of departures.

Each broker joins the parent it was given and is in the tree when its parent confirms it (`PlainTree`). A publication
goes on over every link but the one it came over, or, with the option `filtered`, only where a subscription behind the
link matches. Duplicates are dropped. Publications are delivered as they arrive: the stack offers `eventual` only.

*Receipts.* `accepted`: the publisher's broker has it and has queued it on its links. `safe` means the same here: it
survives the crash of no broker (f = 0), and the publisher need not keep it any longer. `delivered` is never sent.

*Faults.* None are survived. A dead broker takes with it what only it had, and publications do not pass its place until
it returns and its neighbours take it in again. Its clients continue at a neighbour, and are told that they may have
missed messages. Connections that break and come back lose nothing.
"""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.stack import Family, Stack
from resprout_lab.blocks.recorded import ASKING_MESSAGES
from resprout_lab.blocks.tree import TREE_MESSAGES
from resprout_lab.flood.broker import GUARANTEES, RECEIPTS, FloodBroker, Flooded, FloodOptions

FLOOD = Stack(
    name="flood",
    guarantees=GUARANTEES,
    options=FloodOptions,
    messages=CLIENT_MESSAGES + TREE_MESSAGES + ASKING_MESSAGES + (Flooded,),
    make_broker=FloodBroker,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (Flooded,),
        Family.SUBSCRIPTIONS: ASKING_MESSAGES,
        Family.MEMBERSHIP: TREE_MESSAGES,
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    known_limits={"lost": "flooding promises nothing for what a dead broker had, or should have passed on"},
)
