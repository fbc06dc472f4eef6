"""The default stack: one log per broker, links as cursors over it, one flush per crash.

Every broker keeps one log, in the order it accepted things. The tree has no cycles and links are FIFO, so passing the
log on in order gives FIFO and causal order with no ordering metadata but a number and a Lamport stamp per bundle. What
is published travels along the interest of the neighbours; its first f hops ignore interest, so that it is soon at f + 1
brokers. A broker shows an entry to its clients only when it is safe, and after everything that it may depend on.

When a broker dies, its parent asks everybody around it for what was on its way, pools it, and becomes the centre of a
star of plain FIFO links. A total is a barrier that closes behind every earlier message on its keys, everywhere.
"""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.order.messages import BROKER_MESSAGES
from resprout.order.total_levels import TotalLevels
from resprout.order.total_messages import TOTAL_MESSAGES
from resprout.overlay.messages import OVERLAY_MESSAGES
from resprout.spread.messages import SPREAD_MESSAGES
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.resprout.core import GUARANTEES, NAME
from resprout.stacks.resprout.messages import REPAIR_MESSAGES
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.stack import Stack

__all__ = ["RESPROUT", "ResproutBroker", "ResproutOptions"]

RESPROUT = Stack(
    name=NAME,
    guarantees=GUARANTEES,
    options=ResproutOptions,
    messages=(
        *CLIENT_MESSAGES, *SPREAD_MESSAGES, *BROKER_MESSAGES, TotalLevels, *TOTAL_MESSAGES, *OVERLAY_MESSAGES,
        *REPAIR_MESSAGES,
    ),
    make_broker=ResproutBroker,
)  # fmt: skip
