"""Peers that break the protocol: only they are cut off, and everybody else goes on."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.contract import Close, Effect, EndCode, Event, LinkUp, Received, Send, TimerFired, Writable
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark
from resprout.edge.messages import Attend, Publish, Serving, Subscribe, Subscribed, Taken, Turned
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.order.messages import Forward, Levels, Lock, ReportSpread, ReportTaken, Submit
from resprout.overlay.messages import Configuration, Fenced, Life, Seek, Sought, Suspect, Tell, Told
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.messages import (
    Attach,
    AttachRequest,
    Grant,
    Item,
    JoinRequest,
    ParcelEnd,
    ParcelRows,
    SeenMark,
)
from resprout.stacks.resprout.repair import parcels
from resprout.stacks.stack import BrokerSeat
from tests.stacks.tree import Tree

STAR: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0"}


def bundle(first: int = 1, count: int = 1, **changes: Any) -> Bundle:
    fields: dict[str, Any] = {
        "publisher": "evil", "incarnation": 1, "first": first, "count": count, "stamp": 0, "topic": "t", "keys": (),
        "guarantee": Guarantee.CAUSAL, "attributes": b"", "payloads": pack_payloads([b"!"] * count),
    }  # fmt: skip
    return Bundle(**(fields | changes))


def busy_star(faults: int = 1) -> Tree:
    """Three brokers with honest clients at two of them, subscribed, and something on its way to `evil`."""
    tree = Tree(
        STAR,
        {"p": "b0", "s": "b2", "near": "b0", "evil": "b0"},
        seed=2,
        options=ResproutOptions(faults_tolerated=faults),
    )
    tree.start()
    for client in ("s", "near", "evil"):
        tree.ask(client, SubscribeRequest("t"))
    tree.run()
    tree.ask("p", PublishRequest("t", b"before"))
    tree.run()
    tree.machines["evil"] = Mute()
    del tree.wishes["evil", "b0"]
    return tree


class Mute:
    """Does nothing any more of its own accord."""

    def start(self, now_us: int) -> Sequence[Effect]:
        return ()

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        return ()


def cut_off(tree: Tree) -> list[tuple[str, str]]:
    """Whom the honest closed and why; the machine behind a forged message is astonished by the answers, too."""
    return list(dict.fromkeys((peer, reason) for name, peer, reason in tree.closed if name not in ("evil", "b1")))


def check_the_others_go_on(tree: Tree, evil: int = 0) -> None:
    """Publications of the honest arrive at the honest, and `evil` messages of the other."""
    sent = sum(isinstance(what, PublishRequest) for _, kind, what in tree.history if kind == "asked")
    tree.ask("p", PublishRequest("t", b"near"))
    tree.ask("s", PublishRequest("t", b"far"))
    tree.run()
    for client in ("s", "near"):
        got = [m.payload for m in tree.delivered[client]]
        assert (got.count(b"!"), len(got)) == (evil, sent + 2 + evil)
        assert sorted(got[-2:]) == [b"far", b"near"]


BAD_ROWS = msgspec.msgpack.encode([{"x": None}])
HOSTILE_CLIENT: list[tuple[Any, str]] = [
    (Publish(bundle(publisher="p")), "evil.1 published as p.1"),
    (Publish(bundle(incarnation=2)), "evil.1 published as evil.2"),
    (Publish(bundle(incarnation=0)), "evil.1 published as evil.0"),
    (Publish(bundle(payloads=b"\xc1")), "payload column"),
    (Publish(bundle(count=2, payloads=pack_payloads([b"one"]))), "holds 1 messages"),
    (Publish(bundle(attributes=BAD_ROWS)), "attribute column"),
    (Publish(bundle(attributes=pack_attributes([{"x": 1}, {}]))), "holds 2 rows"),
    (Taken(2), "2 deliveries taken of 1 given"),
    (Taken(0), "0 deliveries taken of 1 given, 1 before"),
    (Subscribe(1, "u", None), "subscription 1 exists already"),
    (Forward(bundle(), 1), "Forward is not for evil to say"),
    (Levels((0,), (0,), (), (0,), 0), "Levels is not for evil to say"),
    (Attend(0), "evil asked to be served before"),
    (JoinRequest(""), "JoinRequest is not for evil to say"),
    (AttachRequest(1, (Life("b0", 1),)), "AttachRequest is not for evil to say"),
    (Grant(1, (Life("b1", 1),), ("evil",), 1, 1, Configuration(), True), "Grant is not for evil to say"),
    (Lock(0, 1, bundle(guarantee=Guarantee.TOTAL)), "Lock is not for evil to say"),
    (Fenced(9), "Fenced is not for evil to say"),
    (Suspect(Life("b1", 1), (), True), "Suspect is not for evil to say"),
    (Interested(1, "#", None), "Interested is not for evil to say"),
    (InterestConfirmed(1), "InterestConfirmed is not for evil to say"),
    (Uninterested(1), "Uninterested is not for evil to say"),
    (Serving("x", (), 0), "Serving is not for evil to say"),
    (Turned("ordered", Guarantee.EVENTUAL, 1), "Turned is not for evil to say"),  # type: ignore[arg-type]
    (Subscribed(1), "Subscribed is not for evil to say"),
]


@pytest.mark.parametrize(("message", "why"), HOSTILE_CLIENT, ids=lambda value: value if isinstance(value, str) else "")
def test_a_client_that_breaks_the_protocol_is_cut_off_alone(message: Any, why: str) -> None:
    tree = busy_star()
    tree.forge("evil", "b0", message)
    tree.run()
    ((peer, reason),) = cut_off(tree)
    assert peer == "evil" and why in reason
    check_the_others_go_on(tree)
    assert len(tree.delivered["evil"]) == 1, "nothing is sent to it any more"
    tree.forge("evil", "b0", Publish(bundle()))
    tree.run()
    check_the_others_go_on(tree)


@pytest.mark.parametrize("name", ["dead-letter.0a1b", "follow-up.0a1b"])
def test_a_client_does_not_have_a_name_under_which_brokers_publish(name: str) -> None:
    """It could publish the follow-up of a message before its broker does, which would be dropped as a repeat."""
    broker = broker_with()
    (effect,) = broker.step(LinkUp(name, "client", 1, 10_000), 0)
    assert isinstance(effect, Close) and effect.code is EndCode.FORBIDDEN
    assert "are those of messages that brokers publish" in effect.reason
    assert name not in broker.parts.sessions.all


def test_a_client_that_leaves_a_gap_or_cuts_a_bundle_in_two_is_cut_off() -> None:
    for second, why in ((bundle(4), "leaves a gap after 2"), (bundle(2, 2), "overlaps what was seen up to 2")):
        tree = busy_star()
        tree.forge("evil", "b0", Publish(bundle(1, 2)))
        tree.forge("evil", "b0", Publish(second))
        tree.run()
        ((_, reason),) = cut_off(tree)
        assert why in reason
        check_the_others_go_on(tree, evil=2)


def test_a_bundle_that_a_client_sends_twice_is_delivered_once() -> None:
    tree = busy_star()
    for _ in range(3):
        tree.forge("evil", "b0", Publish(bundle(1, 2)))
    tree.run()
    assert cut_off(tree) == []
    check_the_others_go_on(tree, evil=2)


def test_a_client_that_speaks_before_it_is_served_is_cut_off() -> None:
    broker = broker_with()
    broker.step(LinkUp("evil", "client", 1, 1000), 0)
    effects = broker.step(Received("evil", Publish(bundle())), 0)
    (said,) = [effect.reason for effect in effects if isinstance(effect, Close)]
    assert said == "evil said Publish before it was served"
    assert broker.parts.log.next_no == 0


TOTAL = bundle(guarantee=Guarantee.TOTAL)
HOSTILE_BROKER: list[tuple[Any, str]] = [
    (Levels((9,), (0,), (), (0,), 0), "level 0 reported for 9 of 1"),
    (Levels((1,), (1,), (), (1,), 1), "level 1 reported for 1 of 0"),
    (Levels((0,), (0,), (), (0,), 0), "reported for 0 of 1, 1 before"),
    (Levels((), (), (), (), 0), "both must tolerate the same number of faults"),
    (Levels((1, 1), (0, 0), (1,), (0, 0), 1), "both must tolerate the same number of faults"),
    (Interested(1, "a/#/b", None), "'#' may only be the last level"),
    (Interested(1, "a", "x >"), "column"),
    (Uninterested(77), "interest 77 was never asked"),
    (Publish(bundle()), "Publish is not for b1 to say"),
    (Subscribe(1, "t", None), "Subscribe is not for b1 to say"),
    (Taken(1), "Taken is not for b1 to say"),
    (Serving("x", (), 0), "Serving is not for b1 to say"),
    (Submit(bundle(guarantee=Guarantee.EVENTUAL)), "has no place in any order"),
    (Lock(1 << 40, 1, TOTAL), "at the impossible place"),
    (Forward(bundle(publisher="far", stamp=1 << 62 | 1), 1), "the stamp"),
    (ParcelRows((Item(bundle(), 0, 1, False),)), "rows outside of a parcel"),
    (ParcelEnd(), "the end of a parcel that never began"),
    (Suspect(Life("b2", 1), (Life("x", 1),) * 1025, True), "1025 brokers called dead at once"),
]


@pytest.mark.parametrize(("message", "why"), HOSTILE_BROKER, ids=lambda value: value if isinstance(value, str) else "")
def test_a_broker_that_breaks_the_protocol_is_cut_off_alone(message: Any, why: str) -> None:
    tree = busy_star()
    tree.forge("b1", "b0", message)
    tree.run()
    reason = cut_off(tree)[0]
    assert reason[0] == "b1" and why in reason[1]
    check_the_others_go_on(tree)
    assert tree.incarnations == {"b0": 1, "b1": 2, "b2": 1}, "its next life has joined again"
    assert set(tree.brokers["b0"].parts.links) == {"b1", "b2"}


def test_an_interest_asked_twice_ends_the_session_with_that_broker() -> None:
    for messages, why in (
        ((Interested(5, "u", None), Interested(5, "v", None)), "interest 5 in"),
        ((Interested(5, "u", None), Interested(6, "u", None)), "was asked before"),
    ):
        tree = busy_star()
        for message in messages:
            tree.forge("b1", "b0", message)
        tree.run()
        assert why in cut_off(tree)[0][1]
        check_the_others_go_on(tree)


# -- columns that only a broker can have let in --------------------------------------------------------------------


def broker_with(*events: Any, faults: int = 1) -> ResproutBroker:
    """The root with neighbours `n` and `m`, who have joined, and a client `c`."""
    options = ResproutOptions(faults_tolerated=faults)
    broker = ResproutBroker(BrokerSeat("b", 1, None), options, random.Random(1))
    broker.start(0)
    for name in ("n", "m"):
        broker.step(LinkUp(name, "broker", 1, 10_000), 0)
        told = list(broker.step(Received(name, JoinRequest("")), 0))
        for other in told:  # which grows: nobody else is called so, and everybody knows
            if isinstance(other, Send) and isinstance(other.message, Seek):
                told += broker.step(Received(other.peer, Sought(other.message.number, (), (0,), True)), 0)
            elif isinstance(other, Send) and isinstance(other.message, Tell):
                told += broker.step(Received(other.peer, Told(other.message.number)), 0)
    assert list(broker.parts.links) == ["n", "m"]
    broker.step(LinkUp("c", "client", 1, 10_000), 0)
    broker.step(Received("c", Attend(0)), 0)
    for event in events:
        broker.step(event, 0)
    return broker


def closed(effects: Any) -> list[str]:
    return list(dict.fromkeys(effect.peer for effect in effects if isinstance(effect, Close)))


UNREADABLE = (
    bundle(attributes=b"\xc1"),
    bundle(2, attributes=pack_attributes([{"x": 9}, {"x": 1}])),
    bundle(1, 2, attributes=pack_attributes([{"x": 9}, {"x": 1}]), payloads=b"\xc1"),
    bundle(1, 2, attributes=pack_attributes([{"x": 9}, {"x": 1}]), payloads=pack_payloads([b"only one"])),
)


@pytest.mark.parametrize("forged", UNREADABLE, ids=repr)
@pytest.mark.parametrize("hops", [0, 1, 5])
def test_a_broker_that_took_columns_that_cannot_be_read_from_a_client_is_cut_off_and_one_that_passes_them_on_is_not(
    forged: Bundle, hops: int
) -> None:
    broker = broker_with(Received("c", Subscribe(1, "t", "x > 5")))
    assert closed(broker.step(Received("n", Forward(forged, hops)), 0)) == (["n"] if hops <= 1 else [])
    for event in (
        Received("m", Levels((0,), (0,), (), (0,), 0)),
        Writable("m", 20_000),
        Received("c", Subscribe(2, "u", None)),
        TimerFired(ReportTaken()),
        TimerFired(ReportSpread()),
    ):
        assert closed(broker.step(event, 0)) == []


def test_nobody_else_pays_for_such_a_bundle_when_a_condition_comes_up_later() -> None:
    """It was let in while no condition asked for a look, and a link that fell behind asks for one now."""
    broker = broker_with(faults=0)
    broker.step(Received("m", Interested(1, "t", None)), 0)
    broker.step(Writable("m", 1), 0)
    for first in (1, 2):
        assert closed(broker.step(Received("n", Forward(bundle(first, attributes=b"\xc1"), 1)), 0)) == []
    broker.step(Received("m", Interested(2, "u", "x > 5")), 0)
    broker.step(Received("m", Interested(3, "t", "x > 5")), 0)
    assert closed(broker.step(Writable("m", 20_000), 0)) == []


# -- names and numbers of peers ------------------------------------------------------------------------------------


def test_a_client_may_not_have_the_name_of_a_neighbour_nor_a_neighbour_that_of_a_client() -> None:
    broker = broker_with()
    assert closed(broker.step(LinkUp("n", "client", 1, 1000), 0)) == ["n"]
    assert closed(broker.step(LinkUp("c", "broker", 1, 1000), 0)) == ["c"]
    assert closed(broker.step(Received("n", Levels((0,), (0,), (), (0,), 0)), 0)) == [], "the neighbour is still there"


def test_a_parcel_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "ROWS_MAX", 100)
    broker = broker_with()
    broker.step(Received("n", Attach(1, "x", (), 1, 1)), 0)
    rows = ParcelRows((SeenMark(Mark("p", "ordered", 1, 1)),))
    refused = [closed(broker.step(Received("n", rows), 0)) for _ in range(101)]
    assert refused == [[]] * 100 + [["n"]]


def test_what_a_stranger_says_is_ignored() -> None:
    assert list(broker_with().step(Received("stranger", Publish(bundle())), 0)) == []
