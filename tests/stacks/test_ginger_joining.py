"""A broker that joins Ginger's tree counts as seen only what somebody else has, too."""

import random
from typing import Any

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import LinkUp, Received, Send
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import from_marks
from resprout.edge.messages import Attend, Publish, Serving, Successor
from resprout.scenario.model import BrokerSpec, FaultKind, FaultSpec, Mix
from resprout.stacks.stack import BrokerSeat
from resprout_lab.ginger.broker import GingerBroker
from resprout_lab.ginger.messages import (
    Attached,
    Cut,
    Metadata,
    ParentRequest,
    ParentResponse,
    Progress,
    TotalAck,
    TotalProcessed,
    TreeViewSeen,
    TreeViewUpdate,
)  # fmt: skip
from resprout_lab.ginger.options import GingerOptions
from tests.stacks.ginger_runs import WORK_BEGINS_US, clients, crash, play, scenario, work

ORIGIN = ("c", "ordered", 1)


class Root:
    """The root, with a client and one neighbour that has seen its view."""

    def __init__(self) -> None:
        self.broker = GingerBroker(BrokerSeat("b0", 1, None), GingerOptions(), random.Random(1))
        self.broker.start(0)
        self.broker.step(LinkUp("c", "client", 1, 1 << 20), 0)
        self.hear("c", Attend(0))
        self.joined("b1")

    def hear(self, peer: str, message: Any) -> list[tuple[str, Any]]:
        effects = self.broker.step(Received(peer, message), 0)
        return [(effect.peer, effect.message) for effect in effects if isinstance(effect, Send)]

    def joined(self, name: str) -> list[Any]:
        """What a newcomer is told, when all others have seen the view that shows it."""
        self.broker.step(LinkUp(name, "broker", 1, 1 << 20), 0)
        said = self.hear(name, ParentRequest((), ()))
        for peer, message in list(said):
            if peer != name and isinstance(message, TreeViewUpdate):
                said += self.hear(peer, TreeViewSeen(message.version))
        return [message for peer, message in said if peer == name]

    def publish(self, seq: int, guarantee: Guarantee) -> None:
        bundle = Bundle("c", 1, seq, 1, 0, "t", ("k",), guarantee, b"", pack_payloads([b""]))
        self.hear("c", Publish(bundle))


def test_a_newcomer_is_sent_what_no_other_broker_is_known_to_have() -> None:
    root = Root()
    for seq in (1, 2, 3):
        root.publish(seq, Guarantee.CAUSAL)
    root.hear("b1", Progress(1, 0, 0))
    told = root.joined("b2")
    (attached,) = [message for message in told if isinstance(message, Attached)]
    assert from_marks(attached.cut.seen) == {ORIGIN: 1}, "the first one survives without it"
    assert [message.bundle.first for message in told if isinstance(message, Metadata)] == [2, 3]
    assert told.index(attached) < next(at for at, message in enumerate(told) if isinstance(message, Metadata))


def test_a_newcomer_is_given_the_lock_of_a_total_that_no_child_is_known_to_have() -> None:
    root = Root()
    root.publish(1, Guarantee.TOTAL)
    (total,) = root.broker.totals.in_progress.values()
    root.hear("b1", TotalAck(total.no))
    assert not root.broker.totals.in_progress and root.broker.core.held_back
    told = root.joined("b2")
    (attached,) = [message for message in told if isinstance(message, Attached)]
    assert [lock.no for lock in attached.cut.pending] == [total.no]
    assert from_marks(attached.cut.seen).get(ORIGIN, 0) == 0
    assert [message.no for message in told if isinstance(message, TotalProcessed)] == [total.no]


def test_a_newcomer_serves_its_clients_when_it_can_tell_them_where_to_turn() -> None:
    """One that was told of nobody would wait for its broker for ever."""
    broker = GingerBroker(BrokerSeat("b1", 1, "b0"), GingerOptions(), random.Random(1))
    broker.start(0)
    broker.step(LinkUp("c", "client", 1, 1 << 20), 0)
    broker.step(Received("c", Attend(0)), 0)
    broker.step(LinkUp("b0", "broker", 1, 1 << 20), 0)
    served: list[tuple[str, tuple[Successor, ...]]] = []
    for message in (
        ParentResponse(True),
        Attached("b0", (), (), Cut((), 0, 1, ()), ()),
        TreeViewUpdate(1, (Successor("b1"), Successor("b2")), (), (), (Successor("b1"), Successor("b2"))),
    ):
        assert not served
        sent = [effect for effect in broker.step(Received("b0", message), 0) if isinstance(effect, Send)]
        served = [(one.peer, one.message.successors) for one in sent if isinstance(one.message, Serving)]
    assert served == [("c", (Successor("b0"), Successor("b2")))]


@pytest.mark.parametrize("mix", [Mix(causal=1.0), Mix(eventual=0.5, total=0.5)], ids=["causal", "with totals"])
def test_a_broker_that_dies_just_after_somebody_joined_it_takes_nothing_along(mix: Mix) -> None:
    """Its parent is far away: what its client publishes is under way for long, and seen by the newcomer at once."""
    brokers = (BrokerSpec("b0"), BrokerSpec("b1", "b0", 150_000))
    homes = clients({"c0": "b0", "c1": "b1"}, "a")
    for later_us in range(300_000, 700_000, 50_000):
        faults = (
            FaultSpec(WORK_BEGINS_US, FaultKind.JOIN, nodes=("n0",), parent="b1"),
            crash(WORK_BEGINS_US + later_us, "b1"),
        )
        busy = work(["c1"], "a", mix=mix, operations=60, interval_us=10_000)
        play(scenario(brokers, homes, busy, faults=faults)).check_clean()
