"""The default stack: one log per broker, links as cursors over it, one repair per crash.

Every broker keeps one log, in the order it accepted things. The tree has no cycles and links are FIFO, so passing the
log on in order gives FIFO and causal order with no ordering metadata but a number and a Lamport stamp per bundle. What
is published travels along the interest of the neighbours; its first f hops ignore interest, so that it is soon at f + 1
brokers. A broker shows an entry to its clients only when it is safe, and after everything that it may depend on.

When a broker dies, its parent asks everybody around it for what was on its way, pools it, and becomes the centre of a
star of plain FIFO links. A total is a barrier that closes behind every earlier message on its keys, everywhere.
"""

import random

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.logs.messages import LOG_MESSAGES
from resprout.order.messages import (
    BROKER_MESSAGES,
    TOTAL_MESSAGES,
    AlreadyOrdered,
    Closed,
    Forward,
    Levels,
    Lock,
    OrderedTotal,
    Republished,
    Submit,
    TotalCopy,
)
from resprout.order.totals.levels import TotalLevels
from resprout.overlay.configurations import Whereabouts
from resprout.overlay.messages import OVERLAY_MESSAGES
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.spread.messages import SPREAD_MESSAGES
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.resprout.durable_state import (
    DURABLE_BROKER_MESSAGES,
    DurableDone,
    DurableHeard,
    DurableIds,
    DurableKnown,
)
from resprout.stacks.resprout.log_broker import LogBroker
from resprout.stacks.resprout.messages import (
    REPAIR_MESSAGES,
    Attach,
    AttachRequest,
    ClientBegan,
    Grant,
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Leaving,
    ListenersChanged,
    ListenersHeard,
    MoveAway,
    NameTaken,
    NotMember,
    ParcelEnd,
    ParcelRows,
    Recollect,
    Recollected,
    Recollection,
    Revived,
    ValuesRecollected,
    Welcome,
)
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.parts import GUARANTEES, NAME
from resprout.stacks.resprout.pauses import ReadersPaused
from resprout.stacks.resprout.unsettled import AskUnread, UnreadTold
from resprout.stacks.stack import BrokerSeat, Family, Stack, WaitTimes, everything

__all__ = ["RESPROUT", "ResproutBroker", "ResproutOptions"]


def _waits(options: ResproutOptions) -> WaitTimes:
    """An authority that is silent itself is passed over after two leases, and up to f - 1 of them may be dead, too."""
    passed_over = max(0, options.faults_tolerated - 1)
    return WaitTimes(death_us=(1 + 2 * passed_over) * options.lease_us, return_us=options.ghost_us)


def make_broker(seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> ResproutBroker:
    return LogBroker(seat, options, rng)


RESPROUT = Stack(
    name=NAME,
    guarantees=GUARANTEES,
    options=ResproutOptions,
    messages=(
        *CLIENT_MESSAGES, *SPREAD_MESSAGES, *BROKER_MESSAGES, TotalLevels, *TOTAL_MESSAGES, *OVERLAY_MESSAGES,
        Whereabouts, *REPAIR_MESSAGES, *DURABLE_BROKER_MESSAGES, ReadersPaused, AskUnread, UnreadTold, *LOG_MESSAGES,
        *REPLICA_MESSAGES,
    ),
    make_broker=make_broker,
    families={
        Family.PUBLICATIONS: (Forward, Submit, Lock, Closed, OrderedTotal, AlreadyOrdered),
        Family.LOGS: (*LOG_MESSAGES, *REPLICA_MESSAGES),
        Family.REPORTS: (Levels, TotalLevels),
        Family.SUBSCRIPTIONS: SPREAD_MESSAGES,
        Family.MEMBERSHIP: (
            *OVERLAY_MESSAGES, Whereabouts,
            JoinRequest, JoinElsewhere, JoinWithdrawn, Welcome, Leaving, MoveAway, NameTaken,
        ),
        Family.REPAIR: (
            AttachRequest, NotMember, Attach, Grant, ParcelRows, ParcelEnd, TotalCopy, Republished, Recollect,
            Recollected, ValuesRecollected, Recollection, Revived,
        ),
        Family.CLIENTS: (
            *CLIENT_MESSAGES, ListenersChanged, ListenersHeard, ClientBegan, DurableKnown, DurableHeard, DurableDone,
            DurableIds,             ReadersPaused, AskUnread, UnreadTold,
        ),
    },
    waits=_waits,
    survives=lambda options: everything(options.faults_tolerated),
    max_payload=lambda options: options.max_payload,
    keeps_records=lambda options: bool(options.durable),
    keeps_subscriptions=True,
    keeps_logs=True,
)  # fmt: skip
