"""Who may say what to a broker: messages declare it, and the tables of a broker follow."""

import random

from resprout.core.contract import ProtocolMessage, Sender
from resprout.edge.messages import ReadEvents
from resprout.edge.position_messages import AskPosition, ChangeLog
from resprout.stacks.resprout import RESPROUT
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.stack import BrokerSeat

ANSWERED_ELSEWHERE = frozenset({ReadEvents, AskPosition, ChangeLog})
"""Read by a recorder in front of the broker (`edge.broker.recorder`), and by brokers that have logs (`log_broker`)."""


def broker() -> ResproutBroker:
    return ResproutBroker(BrokerSeat("b", 1, None), ResproutOptions(durable="journal"), random.Random(0))


def test_every_message_that_a_broker_may_be_told_has_a_handler_and_no_other_has() -> None:
    declared = {
        kind for kind in RESPROUT.messages if issubclass(kind, ProtocolMessage) and kind.said_by
    } - ANSWERED_ELSEWHERE
    assert {kind for desk in broker().desks for kind in desk.handlers} == declared


def test_a_desk_hears_what_its_senders_may_say_and_nothing_else() -> None:
    for sender, desk in zip(Sender, broker().desks, strict=True):
        heard = [kind for kind in desk.handlers if issubclass(kind, ProtocolMessage) and sender in kind.said_by]
        assert heard and heard == list(desk.handlers)


def test_only_neighbours_pass_on_bundles_and_newcomers_only_look_for_a_place() -> None:
    of_clients, of_neighbours, of_brokers, of_newcomers = [
        {kind.__name__ for kind in desk.handlers} for desk in broker().desks
    ]
    assert "Forward" in of_neighbours and "Forward" not in of_clients | of_brokers | of_newcomers
    assert of_newcomers == {"JoinRequest", "JoinWithdrawn", "Probe", "Whereabouts", "Enrol", "Enrolled"}
