"""One broker of the stack `gossip`, with hands on its links."""

import random
from typing import Any

import pytest

from resprout.core.bundle import Bundle
from resprout.core.contract import (
    Close,
    Effect,
    EndCause,
    Hold,
    LinkDown,
    LinkUp,
    Open,
    Received,
    Release,
    Request,
    Retire,
    Send,
    Silent,
    TimerFired,
    Writable,
)  # fmt: skip
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Delivery, Publish, Serving, Subscribe, Successors, Taken
from resprout.edge.requests import LeaveRequest
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.mesh import OverlayMember, SilentTooLong
from resprout_lab.gossip.broadcast import ApartDue, Gossiped, Graft, GraftDue, IHave, OfferedRanges, Prune, RecoverDue
from resprout_lab.gossip.broker import AloneDue, GossipBroker
from resprout_lab.gossip.hyparview_messages import (
    ForwardJoin,
    JoinOverlay,
    NeighbourAnswer,
    NeighbourDropped,
    NeighbourRequest,
    ShuffleReply,
)  # fmt: skip
from resprout_lab.gossip.options import GossipOptions
from tests.edge.desk import Desk

ROOM = 1 << 20


class OneBroker:
    """A founder with two neighbours, `b1` and `b2`, and two clients, `p` who publishes and `s` who reads `t`."""

    def __init__(self, room: int = ROOM, founds: bool = True, **options: Any) -> None:
        seat = BrokerSeat("b0", 1, None if founds else "b1")
        self.machine = GossipBroker(seat, GossipOptions(**options), random.Random(1))
        self.effects: list[Effect] = []
        self.bundles = Desk("gossip")
        self.effects.extend(self.machine.start(0))
        if founds:
            for name in ("b1", "b2"):
                self.join(name, room)
        for name in ("p", "s"):
            self.step(LinkUp(name, "client", 1, ROOM))
            self.say(name, Attend(0))
        if founds:
            self.say("s", Subscribe(1, "t", None))

    def join(self, name: str, room: int = ROOM) -> None:
        self.step(LinkUp(name, "broker", 1, room))
        self.say(name, JoinOverlay(1, ""), IHave((), False))

    def step(self, event: Any) -> None:
        self.effects.extend(self.machine.step(event, 0))

    def say(self, name: str, *messages: Any) -> None:
        for message in messages:
            self.step(Received(name, message))

    def publish(self, times: int = 1) -> None:
        for _ in range(times):
            self.say("p", Publish(self.bundles.bundle("p")))

    def said(self, name: str, kind: type[Any]) -> list[Any]:
        sent = [effect.message for effect in self.effects if isinstance(effect, Send) and effect.peer == name]
        return [message for message in sent if isinstance(message, kind)]

    def of(self, kind: type) -> list[str]:
        return [effect.peer for effect in self.effects if isinstance(effect, kind)]  # type: ignore[attr-defined]


def foreign(first: int, publisher: str = "x") -> Bundle:
    return Desk("gossip").bundle(publisher, first=first)


def test_a_publication_goes_to_neighbours_and_readers_and_comes_once() -> None:
    net = OneBroker()
    net.say("b1", Gossiped(foreign(1), 1), Gossiped(foreign(1), 1))
    net.say("b2", Gossiped(foreign(1), 3))
    assert len(net.said("s", Delivery)) == 1 and not net.said("b1", Gossiped)
    assert net.said("b2", Gossiped) == [Gossiped(foreign(1), 2)]


def test_nobody_is_served_before_it_is_known_what_is_not_owed() -> None:
    net = OneBroker(founds=False)
    net.step(LinkUp("b1", "broker", 1, ROOM))
    net.say("b1", NeighbourAnswer(1, True, "", False), IHave((), False))
    assert not net.said("p", Serving)
    stream = foreign(1).stream
    net.say("b1", IHave((OfferedRanges("x", stream, 1, ((1, 3),)),), True))
    assert net.said("p", Serving)
    net.say("s", Subscribe(1, "t", None))
    net.say("b1", Gossiped(foreign(2), 1), Gossiped(foreign(4), 1))
    assert [one.bundle.first for one in net.said("s", Delivery)] == [4]


def test_a_broker_that_nobody_answers_serves_after_a_while() -> None:
    net = OneBroker(founds=False)
    net.step(Silent("b1", refused=False))
    assert not net.said("p", Serving)
    net.step(TimerFired(AloneDue()))
    assert net.said("p", Serving)


def test_a_link_without_room_holds_back_the_publisher_and_loses_nothing() -> None:
    net = OneBroker(room=1, buffer=3)
    net.publish(5)
    assert len(net.said("b1", Gossiped)) == 1
    assert net.of(Hold) == ["p"]
    net.say("s", Taken(5))
    assert not net.of(Release)
    for name in ("b1", "b2"):
        net.step(Writable(name, ROOM))
    assert len(net.said("b1", Gossiped)) == 5 and net.of(Release) == ["p"]


def test_neighbours_never_wait_for_each_other_and_what_was_left_out_is_offered() -> None:
    net = OneBroker(room=1, buffer=1, link_bytes=1)
    net.say("b1", *(Gossiped(foreign(no), 1) for no in range(1, 7)))
    assert net.of(Hold) == ["b1"], "for the reader, who has taken nothing"
    net.say("s", Taken(6))
    assert net.of(Release) == ["b1"] and len(net.said("b2", Gossiped)) == 1
    offered = len(net.said("b2", IHave))
    net.step(Writable("b2", ROOM))
    assert len(net.said("b2", Gossiped)) == 2, "what waited; the rest was left out"
    assert [one.offers[0].ranges for one in net.said("b2", IHave)[offered:]] == [((1, 6),)]
    net.say("b2", Graft((OfferedRanges("x", foreign(1).stream, 1, ((3, 6),)),)))
    assert [one.bundle.first for one in net.said("b2", Gossiped)] == [1, 2, 3, 4, 5, 6]


def test_what_is_missing_is_asked_for_after_a_while() -> None:
    net = OneBroker()
    net.say("b1", IHave((OfferedRanges("x", foreign(1).stream, 1, ((1, 2),)),), True))
    assert not net.said("b1", Graft)
    net.say("b2", Gossiped(foreign(1), 1))
    net.step(TimerFired(GraftDue()))
    assert net.said("b1", Graft) == [Graft((OfferedRanges("x", foreign(1).stream, 1, ((2, 2),)),))]


def test_a_neighbour_whose_process_is_gone_is_replaced_at_once_and_a_silent_one_after_a_while() -> None:
    net = OneBroker()
    net.say("b1", ShuffleReply((OverlayMember("b7", "there"), OverlayMember("b8"))))
    net.step(Silent("b1", refused=True))
    assert len([name for name in net.of(Open) if name in ("b7", "b8")]) == 1
    net.step(Silent("b2", refused=False))
    assert net.of(Open)[-1] == "b2", "its host is asked"
    net.publish()
    assert net.said("b2", Gossiped), "it is a neighbour still"
    net.step(TimerFired(SilentTooLong("b2")))
    net.publish()
    assert len(net.said("b2", Gossiped)) == 1


def test_one_that_is_heard_again_in_time_is_kept() -> None:
    net = OneBroker()
    net.step(Silent("b2", refused=False))
    net.step(LinkUp("b2", "broker", 1, ROOM))
    net.say("b2", NeighbourRequest(2, "", False, False))
    net.step(TimerFired(SilentTooLong("b2")))
    net.publish()
    assert net.said("b2", Gossiped)


def test_one_that_has_what_does_not_come_is_made_a_neighbour() -> None:
    net = OneBroker()
    net.step(LinkUp("x", "broker", 1, ROOM))
    net.say("x", IHave((OfferedRanges("y", foreign(1).stream, 1, ((1, 2),)),), True, routine=True))
    assert not net.said("x", NeighbourRequest)
    net.step(TimerFired(ApartDue("x")))
    assert [one.urgent for one in net.said("x", NeighbourRequest)] == [True]


def test_one_that_is_only_known_is_told_what_there_is() -> None:
    net = OneBroker()
    net.say("b1", ShuffleReply((OverlayMember("b7"),)))
    net.publish()
    for _ in range(4):
        net.step(TimerFired(RecoverDue()))
    assert "b7" in net.of(Open)
    net.step(LinkUp("b7", "broker", 1, ROOM))
    assert {one.routine for one in net.said("b7", IHave)} == {True}


def test_what_a_broker_says_that_is_no_neighbour_is_ignored() -> None:
    net = OneBroker()
    net.say("b1", NeighbourDropped(()))
    net.say("b1", Gossiped(foreign(1), 1), IHave((), True), Prune("x"))
    assert not net.said("s", Delivery) and not net.of(Close)


def test_clients_are_told_of_neighbours_and_of_others_but_not_of_every_shuffle() -> None:
    net = OneBroker()
    net.say("b1", ShuffleReply(tuple(OverlayMember(f"b{no}") for no in range(10, 40))))
    names = [one.name for one in net.said("s", Successors)[-1].successors]
    assert names[:2] == ["b1", "b2"] and len(names) == 16
    told = len(net.said("s", Successors))
    net.say("b1", ShuffleReply(tuple(OverlayMember(f"b{no}") for no in range(50, 80))))
    net.step(LinkDown("b7", "over", EndCause.CLOSED))
    assert len(net.said("s", Successors)) == told


def test_whoever_leaves_tells_its_neighbours_and_ends() -> None:
    net = OneBroker()
    net.step(Request(LeaveRequest()))
    assert [one.leaving for one in net.said("b1", NeighbourDropped) + net.said("b2", NeighbourDropped)] == [True, True]
    assert [effect.again for effect in net.effects if isinstance(effect, Retire)] == [False]


@pytest.mark.parametrize(
    "wrong",
    [
        Attend(0),
        ForwardJoin(OverlayMember("n"), 99),
        IHave((OfferedRanges("x", "e", 1, ((0, 4),)),), True),
        Graft((OfferedRanges("x", "e", 1, ((5, 4),)),)),
        Gossiped(Bundle("x", 1, 1, 1, 0, "t", (), Guarantee.TOTAL, b"", b""), 1),
    ],
)
def test_a_neighbour_that_breaks_the_rules_is_cut_off_and_the_others_go_on(wrong: Any) -> None:
    net = OneBroker()
    net.say("b1", wrong)
    assert net.of(Close) == ["b1"]
    net.publish()
    assert not net.said("b1", Gossiped) and len(net.said("b2", Gossiped)) == 1
