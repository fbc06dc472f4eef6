"""Flood: everything goes everywhere, once, along a tree that is never repaired.

Each broker joins the parent it was given and is in the tree when that one says so (`stacks.shell.tree`). A publication
goes on over every link but the one it came over, or, with the option `filtered`, only where somebody behind the link
wants it; what comes a second time is dropped. Readers are shown it as it comes: `eventual`, and nothing more.

*Receipts.* `accepted`: its broker has it, and has handed it to its links. `safe` says no more than that here: it
survives the crash of no broker at all (f = 0), and the publisher need not keep it any longer. `delivered` would need
answers from everybody, and is never said.

*Faults.* None are survived. With a broker goes what only it had, and what is published while it is away does not pass
its place; when it returns, its neighbours take it in again. Its clients go on at a neighbour, and are told that they
may have missed something. Connections that break and come back lose nothing.
"""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.stack import Stack
from resprout_lab.blocks.asking import ASKING_MESSAGES
from resprout_lab.blocks.tree import TREE_MESSAGES
from resprout_lab.flood.broker import GUARANTEES, RECEIPTS, FloodBroker, Flooded
from resprout_lab.flood.options import FloodOptions

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
