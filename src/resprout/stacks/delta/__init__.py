"""Delta-fault-tolerant publish/subscribe."""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.delta.broker import GUARANTEES, RECEIPTS, DeltaBroker
from resprout.stacks.delta.messages import (
    DELTA_MESSAGES,
    MeetRequest,
    NodeStatus,
    NotKnown,
    RoutedHeal,
    RoutedPublication,
    RoutedRejoin,
    RoutedSubscription,
    RoutedUnsubscription,
    RoutesConfirmed,
    SyncRequest,
    SyncSnapshot,
)  # fmt: skip
from resprout.stacks.delta.options import DeltaOptions
from resprout.stacks.families import Family
from resprout.stacks.stack import Stack
from resprout.stacks.survival import Survival

_CLIENTS = "clients of a dead broker go on at others near it, and are told that they may have missed something"
_CRASH = "delta brokers may be down at once: beyond a barrier of more nobody is reached"

DELTA = Stack(
    name="delta",
    guarantees=GUARANTEES,
    options=DeltaOptions,
    messages=CLIENT_MESSAGES + DELTA_MESSAGES,
    make_broker=DeltaBroker,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (RoutedPublication,),
        Family.REPORTS: (RoutesConfirmed,),
        Family.SUBSCRIPTIONS: (RoutedSubscription, RoutedUnsubscription, RoutedHeal),
        Family.MEMBERSHIP: (RoutedRejoin, NodeStatus, NotKnown, SyncRequest, SyncSnapshot),
        Family.REPAIR: (MeetRequest,),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    survives=lambda options: Survival(
        faults=options.delta, recovers_with_disk=True, recovers_without_disk=True, returns_early=True
    ),
    known_anomalies={"lost_told": _CLIENTS},
    known_limits={"lost": _CRASH},
)
