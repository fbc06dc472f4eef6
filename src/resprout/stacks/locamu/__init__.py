"""LoCaMu."""

from resprout.edge.messages import CLIENT_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.locamu.broker import GUARANTEES, RECEIPTS, LocamuBroker
from resprout.stacks.locamu.messages import (
    LOCAMU_MESSAGES,
    Carried,
    MissingRequest,
    PrefixesSkipped,
    ProcessedCounts,
    SafePlaces,
)
from resprout.stacks.locamu.options import LocamuOptions
from resprout.stacks.shell.tree import TREE_MESSAGES
from resprout.stacks.stack import Stack
from resprout.stacks.survival import Survival

_CLIENTS = "clients of a dead broker wait for its return, and are told that they may have missed something"
_CRASH = "clients of a broker that never returns wait for it, and what it alone had is lost"

LOCAMU = Stack(
    name="locamu",
    guarantees=GUARANTEES,
    options=LocamuOptions,
    messages=CLIENT_MESSAGES + TREE_MESSAGES + LOCAMU_MESSAGES,
    make_broker=LocamuBroker,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (Carried,),
        Family.MEMBERSHIP: (*TREE_MESSAGES, SafePlaces),
        Family.REPORTS: (ProcessedCounts, PrefixesSkipped),
        Family.REPAIR: (MissingRequest,),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    survives=lambda options: Survival(
        options.f, 2 * options.f + 1, recovers_with_disk=True, returns_early=True, all_return=True, again=True
    ),
    keeps_records=lambda options: True,
    known_anomalies={"lost_told": _CLIENTS},
    known_limits={"lost": _CRASH},
)
