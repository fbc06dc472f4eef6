"""Every number of every message of the default stack keeps its bounds (docs/messages.md): one beyond them has the
consequence that is declared beside the field, whoever says it."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tools.message_bounds import Row, complaints, rows, unbounded

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Close, Connected, EndCode, LinkDown, LinkUp, Received, Send, SetTimer, TimerFired
from resprout.core.errors import WireError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import NUMBER_MAX, BoundedNumber
from resprout.edge.broker.consumers import WINDOW_MAX, WINDOW_MIN, WINDOWS_MAX
from resprout.edge.broker.recorder import PAGE_BYTES
from resprout.edge.durable_messages import (
    FOLLOW_UPS_MAX,
    Acknowledge,
    Consume,
    Consuming,
    FollowedUp,
    FollowUp,
    Handed,
    RetryDue,
    RetryTerms,
    Settle,
    Settlement,
    Span,
    Standing,
    Terms,
)
from resprout.edge.messages import Attend, DropsAcknowledged, Publish, Taken
from resprout.edge.value_messages import VALUES_BYTES, AskValues, ValuesTold
from resprout.journal.interface import FetchEvents
from resprout.links.frames import FRAMES, Express, Part, Parted
from resprout.net.sessions import MORE_FRAMES, believed, make_codec
from resprout.order.messages import Ahead, Levels, Submit
from resprout.order.totals.levels import TotalLevel, TotalLevels
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import CouncilOptions, Place, Tell
from resprout.stacks.resprout import RESPROUT, ResproutBroker, ResproutOptions
from resprout.stacks.stack import BrokerSeat
from resprout.values.rows import KnownValue, ValuesReached
from tests.edge.test_recorder import StubStack, ask, keeping
from tests.links.puppet import Desk, Parcel, data, frames
from tests.stacks.message_samples import sample
from tests.stacks.test_false_clocks import TAMPERED
from tests.stacks.test_hostile import broker_with, bundle, closed

ROWS = rows()
CODEC = make_codec(RESPROUT.messages)
FAR = 1 << 50


def decoded(row: Row, number: int) -> Any:
    what = sample(row.message, row.path, number)
    frame = what if row.message in (*FRAMES, *MORE_FRAMES) else data(1, what)
    return CODEC.decoder().decode(CODEC.encoder().encode(frame))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_decoder_takes_a_number_at_its_bound_and_refuses_the_next_one(row: Row) -> None:
    assert row.least is not None and row.most is not None
    decoded(row, row.most)
    for beyond in (row.most + 1, row.least - 1, 1 << 40 if row.path.endswith(".count") else (1 << 63) - 1):
        with pytest.raises(WireError):
            decoded(row, beyond)


def test_a_number_without_a_bound_and_a_page_that_differs_are_complaints(tmp_path: Any) -> None:
    class Unbounded(msgspec.Struct, frozen=True, tag=999, array_like=True):
        count: int
        other: BoundedNumber

    loose = Row(Unbounded, "count", "client", None, None, None)
    assert unbounded([loose, *ROWS]) == ["Unbounded.count has no bound: use a type of core/message_fields.py"]
    assert [line.split(":")[0] for line in complaints(tmp_path)] == ["docs/messages.md"]


# -- what the receiver derives -----------------------------------------------------------------------------------------


def refused_code(broker: ResproutBroker, name: str, message: Any) -> EndCode:
    (close,) = [effect for effect in broker.step(Received(name, message), 0) if isinstance(effect, Close)]
    assert close.peer == name, "nobody else is cut off"
    assert broker.status().refused or broker.mistakes, "it is counted"
    return close.code


def test_a_client_publishes_under_its_own_life_the_next_number_and_a_stamp_that_it_can_know() -> None:
    for wrong in (bundle(publisher="c", incarnation=FAR), bundle(publisher="c", stamp=1 << 61)):
        assert refused_code(broker_with(), "c", Publish(wrong)) is EndCode.OUT_OF_BOUNDS
    broker = broker_with(Received("c", Publish(bundle(publisher="c"))))
    assert refused_code(broker, "c", Publish(bundle(FAR, publisher="c"))) is EndCode.NONE


def test_a_client_takes_no_more_than_it_was_given() -> None:
    assert refused_code(broker_with(), "c", Taken(1)) is EndCode.OUT_OF_BOUNDS


def test_a_client_acknowledges_no_more_notices_of_drops_than_it_was_sent() -> None:
    assert refused_code(broker_with(), "c", DropsAcknowledged(1)) is EndCode.OUT_OF_BOUNDS


def test_a_clock_that_no_broker_gave_a_client_costs_it_its_session() -> None:
    broker = broker_with()
    broker.step(LinkUp("d", "client", 1, 10_000), 0)
    assert refused_code(broker, "d", Attend(1 << 61)) is EndCode.OUT_OF_BOUNDS
    assert broker.parts.clock.now < 100
    assert broker.status().refused == {"it stated a number beyond its bound": 1}


def test_a_page_of_events_is_no_larger_than_the_broker_gives() -> None:
    assert ask(keeping(StubStack()), size=FAR) == [FetchEvents(1, 0, 0, PAGE_BYTES)]


def test_an_answer_about_last_values_is_no_larger_than_the_broker_gives() -> None:
    broker = broker_with()
    rows = [KnownValue(f"t/{n}", 1 + n, "c", 1, 1 + n, 1, (), b"", bytes(VALUES_BYTES // 2)) for n in range(4)]
    broker.parts.values.replace([*rows, ValuesReached(4)])
    effects = broker.step(Received("c", AskValues(1, "t/#", size=FAR)), 0)
    (told,) = [effect.message for effect in effects if isinstance(effect, Send)]
    assert isinstance(told, ValuesTold)
    assert (len(told.rows), told.more) == (1, True)


def test_a_stamp_of_a_last_value_that_no_broker_can_have_given_is_limited() -> None:
    broker = broker_with()
    broker.parts.values.replace([KnownValue("t", 1, "c", 1, 1, 1 << 61, (), b"", b"x"), ValuesReached(1)])
    (value,) = broker.parts.values.store.values()
    assert value.stamp < 1 << 61


class Durable:
    """A broker that is alone, with a publisher and consumers of the durable subscription `jobs`."""

    def __init__(self, group: bool) -> None:
        self.terms = Terms("t", None, group)
        self.broker = ResproutBroker(BrokerSeat("b", 1, None), ResproutOptions(), random.Random(1))
        self.broker.start(0)
        self.broker.step(LinkUp("c", "client", 1, 1 << 20), 0)
        self.broker.step(Received("c", Attend(0)), 0)
        self.handed: list[int] = []

    def hear(self, name: str, message: Any) -> list[Any]:
        effects = self.broker.step(Received(name, message), 0)
        told = [effect.message for effect in effects if isinstance(effect, Send)]
        for message in told:
            if isinstance(message, Handed):
                self.handed += range(message.bundle.first, message.bundle.last + 1)
        return told

    def join(self, name: str, window: int = 1, **more: Any) -> list[Any]:
        self.broker.step(LinkUp(name, "client", 1, 1 << 20), 0)
        return self.hear(name, Consume("jobs", self.terms, window, **more))

    def publish(self, *firsts: int) -> None:
        for first in firsts:
            self.hear("c", Publish(bundle(first, publisher="c")))


def test_consumers_of_an_identity_share_their_windows() -> None:
    """All that they have out comes back when they leave together: ten of them with 60,000 messages each took 15 s."""
    scene = Durable(group=True)

    def join(number: int, identity: str = "one", window: int = NUMBER_MAX) -> int:
        scene.broker.step(LinkUp(f"k{number}", "client", 1, 1 << 20, identity=identity), 0)
        scene.hear(f"k{number}", Consume("jobs", scene.terms, window))
        return scene.broker.parts.durables.consumers.held["jobs"].queue.consumers[f"k{number}"].window

    windows = [join(number) for number in range(20)]
    assert windows[:3] == [WINDOW_MAX, WINDOW_MAX // 2, WINDOW_MAX // 4]
    assert sum(windows) <= WINDOWS_MAX + 20 * WINDOW_MIN
    assert windows[-1] == WINDOW_MIN
    assert join(20, "two", 4_096) == 4_096
    for number in range(20):
        scene.broker.step(LinkDown(f"k{number}", "it is gone"), 0)
    assert join(21) == WINDOW_MAX


def test_messages_are_taken_back_and_handed_out_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer with 60,000 messages out that never acknowledges had its broker take all of them back and hand all of
    them out again in each step: 2 s, without a pause."""
    monkeypatch.setattr("resprout.edge.broker.consumers.HANDED_MAX", 4)
    monkeypatch.setattr("resprout.edge.broker.retries.OVERDUE_MAX", 3)
    scene = Durable(group=True)
    scene.terms = Terms("t", None, True, retry=RetryTerms("dead", 0, 1_000_000))
    scene.join("j")
    scene.publish(*range(1, 13))
    scene.broker.step(LinkDown("j", "it is gone"), 0)
    scene.handed.clear()
    scene.join("k", 100)
    assert scene.handed == [1, 2, 3, 4, 5]

    def look(now_us: int) -> tuple[list[int], list[int]]:
        effects = scene.broker.step(TimerFired(RetryDue("jobs")), now_us)
        handed = [effect.message.bundle.first for effect in effects if isinstance(effect, Send)
                  and isinstance(effect.message, Handed)]  # fmt: skip
        due = [effect.at_us for effect in effects if isinstance(effect, SetTimer) and effect.timer == RetryDue("jobs")]
        return handed, due

    assert look(1) == ([6, 7, 8, 9, 10], [1])
    assert look(1) == ([11, 12], [1_000_000])
    for first in (1, 4, 7):
        assert look(2_000_000) == ([*range(first, first + 3)], [2_000_000])
    assert look(2_000_000) == ([10, 11, 12], [3_000_000])


def test_a_consumer_has_no_more_out_than_a_window() -> None:
    scene = Durable(group=False)
    scene.join("k", NUMBER_MAX)
    assert scene.broker.parts.durables.consumers.held["jobs"].queue.consumers["k"].window == WINDOW_MAX


def test_a_turn_that_nobody_was_given_is_refused() -> None:
    scene = Durable(group=False)
    scene.join("k")
    told = scene.join("thief", turn=FAR)
    assert [each.standing for each in told if isinstance(each, Consuming)] == [Standing.REFUSED]


EVERYTHING = (Span("c", "ordered", 1, 1, NUMBER_MAX), Span("c", "ordered", NUMBER_MAX, 1, NUMBER_MAX))


def follow_up(first: int, publication: Bundle | None = None) -> FollowUp:
    bundle = publication or Bundle("x", 1, 1, 1, 0, "after", (), Guarantee.EVENTUAL, b"", pack_payloads([b"y"]))
    return FollowUp(Span("c", "ordered", 1, first, first), bundle)


def test_a_follow_up_has_numbers_of_the_broker_whatever_its_consumer_says() -> None:
    scene = Durable(group=True)
    scene.join("k")
    scene.publish(1)
    forged = Bundle("x", FAR, FAR, 1, 1 << 61, "after", (), Guarantee.EVENTUAL, b"", pack_payloads([b"y"]))
    seen = scene.broker.parts.seen
    told = scene.hear("k", follow_up(1, forged))
    assert [(each.span.first, each.reason) for each in told if isinstance(each, FollowedUp)] == [(1, "")]
    (mark,) = [mark for mark in seen.marks() if mark.publisher.startswith("follow-up.")]
    assert mark.seq == 1 and mark.incarnation < 1 << 31
    assert scene.broker.parts.clock.now < 100


@pytest.mark.parametrize("group", [False, True], ids=["alone", "group"])
def test_nobody_publishes_a_follow_up_of_what_it_was_not_handed(group: bool) -> None:
    scene = Durable(group)
    scene.join("k", 1)
    scene.publish(1, 2)
    assert scene.handed == [1]
    if group:
        scene.join("thief", 1)
        assert scene.handed == [1, 2]
    name = "thief" if group else "k"
    held = scene.broker.parts.durables.consumers.held["jobs"]
    told = scene.hear(name, follow_up(1 if group else 2))
    told += scene.hear(name, FollowUp(Span("c", "ordered", NUMBER_MAX, 1, 1), follow_up(1).bundle))
    assert not [each for each in told if isinstance(each, FollowedUp)]
    assert not [mark for mark in scene.broker.parts.seen.marks() if mark.publisher.startswith("follow-up.")]
    scene.broker.step(LinkDown(name, "it is gone"), 0)
    scene.broker.parts.durables.follow_ups.look(held)
    assert not held.steps


@pytest.mark.parametrize(
    "wrong",
    [
        FollowUp(Span("c", "ordered", 1, 1, 2), follow_up(1).bundle),
        FollowUp(Span("c", "ordered", 1, 0, 0), follow_up(1).bundle),
        follow_up(1, Bundle("x", 1, 1, 1, 0, "after", (), Guarantee.CAUSAL, b"", pack_payloads([b"y"]))),
        follow_up(1, Bundle("x", 1, 1, 2, 0, "after", (), Guarantee.EVENTUAL, b"", pack_payloads([b"y", b"z"]))),
        follow_up(1, Bundle("x", 1, 1, 1, 0, "after", (), Guarantee.EVENTUAL, b"", b"")),
    ],
)
def test_a_follow_up_that_no_honest_consumer_makes_costs_the_session(wrong: FollowUp) -> None:
    scene = Durable(group=True)
    scene.join("k")
    scene.publish(1)
    assert refused_code(scene.broker, "k", wrong) is not None


def test_a_consumer_has_no_more_follow_ups_under_way_than_it_may() -> None:
    scene = Durable(group=True)
    scene.join("k")
    for first in range(1, FOLLOW_UPS_MAX + 1):
        scene.hear("k", follow_up(first))
    assert refused_code(scene.broker, "k", follow_up(FOLLOW_UPS_MAX + 1)) is EndCode.OUT_OF_BOUNDS


@pytest.mark.parametrize("forged", ["done", "has", "acknowledged", *Settlement])
@pytest.mark.parametrize("group", [False, True], ids=["alone", "group"])
def test_nobody_acknowledges_or_claims_what_was_not_handed_out(forged: str | Settlement, group: bool) -> None:
    """Attack 3 of issue 27: the owner got 1 of 11 messages, and the publisher was told that all were delivered."""
    scene = Durable(group)
    if isinstance(forged, Settlement):
        scene.terms = Terms("t", None, group, retry=RetryTerms("dead"))
    scene.join("owner")
    scene.publish(1, 2, 3)
    assert scene.handed == [1]
    if isinstance(forged, Settlement):
        scene.join("thief")
        scene.hear("owner", Settle(forged, EVERYTHING[1:]))
        scene.hear("thief", Settle(forged, EVERYTHING))
        dead = scene.broker.parts.durables.consumers.held["jobs"].queue.retries.dead
        assert len(dead) == (forged is Settlement.TERM), "what the thief had been handed, and nothing else"
        scene.join("owner2" if not group else "other", 10)
    elif forged == "acknowledged":
        scene.hear("owner", Acknowledge(EVERYTHING))
    else:
        claims: dict[str, Any] = {forged: EVERYTHING}
        scene.join("thief", **claims)
        assert set(scene.handed) <= {1, 2}
        scene.broker.step(LinkDown("thief", "it is gone"), 0)
        scene.join("owner2" if not group else "other", 10)
    scene.publish(4, 5)
    for name in ("owner", "owner2", "other"):
        for number in range(1, 6):
            if name in scene.broker.parts.sessions.all:
                scene.hear(name, Acknowledge((Span("c", "ordered", 1, number, number),)))
    assert set(scene.handed) == {1, 2, 3, 4, 5}, "each was handed to somebody"


@pytest.mark.parametrize(
    "wrong",
    [
        Levels((FAR, 0), (0, 0), (0,), (0, 0), 0),
        Levels((0, 0), (FAR, 0), (0,), (0, 0), 0),
        Levels((0, 0), (0, 0), (FAR,), (0, 0), 0),
        Levels((0, 0), (0, 0), (0,), (FAR, 0), 0),
        Levels((0, 0), (0, 0), (0,), (0, 0), FAR),
        Levels((0, 0), (0, 0), (0,), (0, 0), 0, (Ahead(0, 1, FAR),)),
        Levels((0, 0), (0, 0), (0,), (0, 0), 0, (Ahead(0, FAR, FAR),)),
        Levels((0, 0), (0, 0), (0,), (0, 0), 0, (Ahead(60, 1, 1),)),
    ],
    ids=repr,
)
def test_a_neighbour_reports_what_has_crossed_the_link(wrong: Levels) -> None:
    broker = broker_with(faults=2)
    assert closed(broker.step(Received("n", Levels((0, 0), (0, 0), (0,), (0, 0), 0)), 0)) == []
    assert refused_code(broker, "n", wrong) is EndCode.NONE


def test_levels_of_a_total_are_no_higher_than_there_are() -> None:
    broker = broker_with()
    total = bundle(publisher="x", guarantee=Guarantee.TOTAL)
    broker.step(Received("n", Submit(total)), 0)
    report = TotalLevels((TotalLevel("x", 1, 1, NUMBER_MAX, NUMBER_MAX, False),))
    assert closed(broker.step(Received("n", report), 0)) == []
    assert broker.parts.total_acks.heard["x", 1, 1] == {"n": (0, 1, False)}


def test_an_answer_to_a_ping_of_the_future_renews_no_lease_beyond_now() -> None:
    broker = broker_with()
    detector = LeaseDetector(broker.life.view, CouncilOptions(heartbeat_us=100, lease_us=300))
    broker.life.view.parent = "n"
    detector.ponged("n", FAR, True, 1_000)
    assert detector.renewed_us == 1_000 and not detector.hears_parent(2_000)


def test_a_wave_goes_no_farther_than_brokers_look() -> None:
    broker = broker_with()
    place = Place("n", 1, 5, "b", ("b", "x"), "")
    effects = broker.step(Received("n", Tell(7, FAR, (place,))), 0)
    told = [effect.message for effect in effects if isinstance(effect, Send)]
    assert [message.ttl < broker.life.view.reach for message in told if isinstance(message, Tell)] == [True]


def linked(**changes: Any) -> Desk:
    desk = Desk(incarnation_max=1_000)
    desk.accept(5, "c1", **changes)
    return desk


FRAMES_BEYOND: dict[str, Callable[[Desk], Any]] = {
    "Data.first": lambda desk: data(FAR),
    "Data.received": lambda desk: data(1, received=FAR),
    "Data.grant": lambda desk: data(1, grant=0),
    "Part.number": lambda desk: Part(FAR, 0, 2_000, False, b"x" * 1_500),
    "Part.at": lambda desk: Part(1, FAR, 2_000, False, b"x" * 1_500),
    "Part.size": lambda desk: Part(1, 0, FAR, False, b"x" * 1_500),
    "Parted.received": lambda desk: Parted(FAR, 1_000, 0),
    "Parted.grant": lambda desk: Parted(0, 0, 0),
    "Parted.part": lambda desk: Parted(0, 1_000, FAR),
    "Express.first": lambda desk: Express(FAR, 0, ()),
    "Express.received": lambda desk: Express(1, FAR, ()),
    "Hello.received": lambda desk: desk.hello(received=FAR),
    "Hello.part": lambda desk: desk.hello(part=FAR),
    "Hello.express": lambda desk: desk.hello(express=FAR),
}


@pytest.mark.parametrize("name", FRAMES_BEYOND)
def test_a_frame_beyond_what_the_session_has_seen_ends_it(name: str) -> None:
    desk = linked()
    assert desk.puppet.heard(LinkUp) and not desk.puppet.heard(LinkDown)
    if name.startswith("Hello"):
        desk.lose(5)
        desk.accept(6, "c1", **{name.split(".")[1]: FAR, "peer_incarnation": 1})
    else:
        desk.arrive(5, FRAMES_BEYOND[name](desk))
    assert [down.peer for down in desk.puppet.heard(LinkDown)] == ["c1"]


@pytest.mark.parametrize("name", ["received", "part", "express"])
def test_an_answer_to_a_greeting_beyond_what_was_sent_ends_the_session(name: str) -> None:
    desk = Desk()
    desk.reach(5, "b0")
    desk.lose(5)
    desk.step(Connected(6, "b0"))
    beyond: dict[str, Any] = {name: FAR}
    desk.arrive(6, desk.welcome(**beyond))
    assert [down.peer for down in desk.puppet.heard(LinkDown)] == ["b0"]


def test_a_greeting_that_grants_less_than_was_granted_before_takes_nothing_back() -> None:
    accepting, opening = linked(), Desk()
    accepting.lose(5)
    accepting.accept(6, "c1", grant=0, peer_incarnation=1)
    opening.reach(5, "b0")
    opening.lose(5)
    opening.step(Connected(6, "b0"))
    opening.arrive(6, opening.welcome(grant=0))
    for desk, peer in ((accepting, "c1"), (opening, "b0")):
        assert not desk.puppet.heard(LinkDown)
        assert frames(desk.ask((peer, Parcel(1, 10)))), "there is room for it"


def test_a_life_far_ahead_of_the_clock_is_refused_or_not_believed() -> None:
    opening = Desk(incarnation_max=1_000)
    opening.reach(5, "b0", incarnation=FAR)
    for desk in (linked(incarnation=FAR), opening):
        assert not desk.puppet.heard(LinkUp)
    assert believed(FAR) == 0


TESTED = {
    "Publish.bundle.incarnation", "Publish.bundle.first", "Publish.bundle.stamp", "Taken.deliveries", "Attend.clock",
    "DropsAcknowledged.notices",
    "ReadEvents.size", "AskValues.size", "Consume.window", "Consume.turn", "Pong.sent_us",
    "Tell.ttl", "Here.met", "Hello.incarnation",
    "Hello.grant",
    *[f"{spans}[].{number}" for spans in ("Consume.done", "Consume.has", "Acknowledge.spans", "Settle.spans")
      for number in ("incarnation", "first", "last")],
    *[f"Levels.{number}" for number in
      ("have[]", "firm[]", "back_have[]", "back_firm[]", "done", "ahead[].rung", "ahead[].first", "ahead[].last")],
    "TotalLevels.levels[].reach", "TotalLevels.levels[].level",
    *[f"SessionWelcome.{number}" for number in ("incarnation", "received", "grant", "part", "express")],
    *[f"FollowUp.span.{number}" for number in ("incarnation", "first", "last")],
    "Challenge.salts[].iterations", "ProofAccepted.which",  # in tests/net/test_scram.py
    "LogFeed.number", "LogFed.upto", "LogCopied.count", "LogCopied.place",  # in tests/logs/test_lies.py
    "LogPage.compacted", "LogPage.covered",  # in test_log_reads.py
    *FRAMES_BEYOND, *TAMPERED,
}  # fmt: skip
"""Derived bounds that a test of this file or of `test_false_clocks` exceeds."""


def test_every_derived_bound_has_a_test_that_exceeds_it() -> None:
    assert {row.name for row in ROWS if row.derived is not None} == TESTED
