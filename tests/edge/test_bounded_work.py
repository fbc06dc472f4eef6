"""Work and memory that one message of a client can cause: each test counts operations, none measures time.

Each attack took a broker seconds to hours in one step, or memory without a bound, with frames that all limits allowed.
"""

from typing import Any

import msgspec
import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Received, Send
from resprout.core.errors import BoundError, PeerError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import ClientLimits
from resprout.core.message_fields import Mark, to_marks
from resprout.edge.broker import queue_progress as progress_module
from resprout.edge.broker import quotas as quotas_module
from resprout.edge.broker import recorder as recorder_module
from resprout.edge.broker import session as session_module
from resprout.edge.broker import sessions as sessions_module
from resprout.edge.broker import sharing as sharing_module
from resprout.edge.broker.event_record import event_record
from resprout.edge.broker.guard import Guard, Permit
from resprout.edge.broker.portion import Consumer, Portion
from resprout.edge.broker.quotas import LimitError, Quotas
from resprout.edge.broker.recorder import FILTERS_MAX, EventRecorder
from resprout.edge.broker.session import ENTRY_BYTES, ClientSession
from resprout.edge.broker.waiting_portions import WaitingPortions
from resprout.edge.durable_messages import Span
from resprout.edge.messages import (
    BASE_MARKS_MAX,
    RECEIVED_MARKS_MAX,
    SAFE_MARKS_MAX,
    TOPICS_MAX,
    TRIED_MAX,
    AskAudience,
    Attend,
    EventsEnd,
    HeldSubscription,
    ReadEvents,
    StreamMark,
)
from resprout.edge.rights import Rights
from resprout.filters import predicate as predicate_module
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.journal.interface import EventsFetched, FetchEvents, Kept
from resprout.links.frames import Data
from resprout.net.sessions import make_codec
from resprout.stacks.stack import find_stack
from tests.edge.house import House
from tests.edge.test_recorder import StubStack, keeping
from tests.edge.test_sharing import Scene

LONG = " or ".join(f"a{number} = {number}" for number in range(300))


class CountedId(int):
    """A number that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_subscriptions_that_a_client_brings_along_are_looked_at_once_each() -> None:
    """Each forbidden one was searched among all allowed ones: one frame with 300,000 took half an hour."""
    guard = Guard(lambda client: Permit(Rights(subscribe=("a/#",))), lambda client, why: None)
    session = ClientSession("c", 1, 0)
    held = tuple(HeldSubscription(CountedId(id), "a/x" if id % 2 else "b/x", None, ()) for id in range(1, 1001))
    CountedId.compared = 0
    message, _ = guard(session, Attend(0, subscriptions=held))
    assert len(message.subscriptions) == len(session.withheld) == 500
    assert CountedId.compared <= 4 * len(held)


def test_bases_of_subscriptions_that_ask_for_the_same_are_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them copied the bases of all before it."""
    counted = 0

    def count(reached: Any) -> Any:
        nonlocal counted
        counted += len(reached)
        return to_marks(reached)

    monkeypatch.setattr(sessions_module, "to_marks", count)
    house = House()
    held = tuple(HeldSubscription(id, "t", None, (Mark(f"p{id}", "ordered", 1, id),)) for id in range(1, 501))
    session = house.serve("c", Attend(0, ("b1",), (), held))
    [base] = session.confirmed.values()
    assert {(mark.publisher, mark.seq) for mark in base} == {(f"p{id}", id) for id in range(1, 501)}
    assert counted <= 2 * len(held)


@pytest.mark.parametrize(
    ("field", "most", "item"),
    [
        ("tried", TRIED_MAX, "b1"),
        ("received", RECEIVED_MARKS_MAX, Mark("p", "ordered", 1, 1)),
        ("safe", SAFE_MARKS_MAX, StreamMark("ordered", 1)),
    ],
)
def test_lists_of_a_returning_client_have_bounds_that_the_decoder_keeps(field: str, most: int, item: Any) -> None:
    """4 MB of marks became 50 MB in each session, and names of brokers were searched for each in all others."""
    codec = make_codec(find_stack("resprout").messages)
    for count in (most, most + 1):
        attend = msgspec.structs.replace(Attend(0), **{field: (item,) * count})
        body = codec.encoder().encode(Data(1, 0, 0, (attend,)))
        if count <= most:
            assert codec.decoder().decode(body).messages[0] == attend
        else:
            with pytest.raises(WireError, match=f"length <= {most}"):
                codec.decoder().decode(body)


def test_a_question_for_an_audience_has_a_bound_that_the_decoder_keeps() -> None:
    codec = make_codec(find_stack("resprout").messages)
    body = codec.encoder().encode(Data(1, 0, 0, (AskAudience(1, ("t",) * (TOPICS_MAX + 1)),)))
    with pytest.raises(WireError, match=f"length <= {TOPICS_MAX}"):
        codec.decoder().decode(body)


def test_the_bases_of_all_subscriptions_together_have_a_bound() -> None:
    house = House()
    base = (Mark("p", "ordered", 1, 1),) * (BASE_MARKS_MAX // 2)
    with pytest.raises(PeerError, match=f"more than {BASE_MARKS_MAX} marks"):
        house.serve("c", Attend(0, ("b1",), (), tuple(HeldSubscription(id, "t", None, base) for id in (1, 2, 3))))


def test_marks_of_what_clients_of_one_party_have_received_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "MARKS_MAX", 10)
    quotas = Quotas()
    sessions = [ClientSession(f"c{number}", 1, 0, identity="i") for number in range(3)]
    for session in sessions:
        quotas.enter(session)
        quotas.keep_received(session, tuple(Mark(f"p{number}", "ordered", 1, 1) for number in range(8)))
    assert [len(session.received) for session in sessions] == [8, 2, 0]
    assert ("p7", "ordered", 1) in sessions[1].received, "the latest ones are kept"
    quotas.leave(sessions[0])
    quotas.keep_received(sessions[2], (Mark("p", "ordered", 1, 1),))
    assert len(sessions[2].received) == 1, "what was left is given back"


class CountedItem:
    def __init__(self, no: int, reads: list[int]) -> None:
        self._no = no
        self._reads = reads

    @property
    def no(self) -> int:
        self._reads.append(self._no)
        return self._no


def test_many_subscriptions_that_end_beside_a_long_backlog_are_looked_at_once() -> None:
    """Each end went through the whole backlog: 100,000 ends beside 100,000 deliveries in one step."""
    session = ClientSession("c", 1, 0)
    reads: list[int] = []
    session.backlog.extend([CountedItem(no, reads) for no in range(1_000, 1_500)])  # type: ignore[misc]
    session.endings.extend([(1_000, id) for id in range(500)])
    session.endings.append((1_001, 500))
    assert session.ended(None) == list(range(500))
    assert len(reads) <= 500 + 2 * 501


def test_an_acknowledgement_costs_what_it_names_and_not_what_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 16,384 spans in a message went through all of 65,536 messages that its consumer had, or that waited
    again: minutes for one frame."""
    scene = Scene(is_shared=True)
    scene.join("a", window=300)
    scene.join("b", window=300)
    for _ in range(1_000):
        scene.publish()
    scene.hand_out()
    scene.queue.leave("a")
    scene.join("c", window=1)
    looked = 0

    def look(portion: Portion) -> Bundle:
        nonlocal looked
        looked += 1
        assert portion.item.bundle is not None
        return portion.item.bundle

    monkeypatch.setattr(Portion, "bundle", property(look))
    for number in range(100_000, 100_100):
        scene.acknowledge("b", number)
        scene.acknowledge("c", number, number + 1)
    assert looked <= 4 * 300


def test_portions_that_were_handed_out_before_are_found_wherever_they_are() -> None:
    """With its index, a queue still takes acknowledgements of consumers that are gone, or came back as others."""
    scene = Scene(is_shared=False)
    scene.join("a", window=4)
    for _ in range(6):
        scene.publish(2)
    assert [number for _, number, _ in scene.hand_out()] == [1, 2, 3, 4]
    scene.queue.leave("a")
    assert scene.queue.waiting == 12
    scene.join("a2", window=2)
    scene.queue.acknowledge("a2", Span("p", "ordered", 1, 2, 3))
    assert scene.queue.waiting == 10
    assert scene.hand_out() == [("a2", 1, True), ("a2", 4, True)]
    scene.acknowledge("a2", 1, 4)
    assert len(scene.took) == 2 and scene.queue.waiting == 8
    scene.queue.acknowledge("a2", Span("p", "ordered", 1, 5, 12))
    assert scene.queue.waiting == 8, "nobody was handed these"


def test_a_group_with_many_consumers_looks_for_free_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each message that waited for its key, all consumers were asked: a million questions in each step."""
    scene = Scene(is_shared=True)
    scene.join("holder", window=1)
    scene.publish(1, "k")
    scene.hand_out()
    for number in range(50):
        scene.join(f"c{number}")
    for _ in range(200):
        scene.publish(1, "k")
    asked = 0
    free = Consumer.free.fget  # type: ignore[attr-defined]

    def count(consumer: Consumer) -> int:
        nonlocal asked
        asked += 1
        return int(free(consumer))

    monkeypatch.setattr(Consumer, "free", property(count))
    assert scene.hand_out() == []
    assert asked <= 2 * 51


def test_a_durable_subscription_that_drops_the_oldest_has_a_bound_in_bytes() -> None:
    """Its owner says how many messages may wait, and could say 2^53: the broker kept everything in memory."""
    scene = Scene(is_shared=False)
    scene.join("a", window=10)
    for _ in range(100):
        scene.session.owed_bytes += _cost()
        scene.publish()
        scene.queue.drop_oldest(1 << 53, 20 * _cost())
        scene.hand_out()
    assert scene.session.owed_bytes <= 20 * _cost()
    assert scene.queue.waiting == 10 and scene.queue.drops.messages == 80
    assert [number for _, number, _ in scene.handed] == list(range(1, 11))


def _cost() -> int:
    return ENTRY_BYTES + Bundle("p", 1, 1, 1, 1, "jobs", (), Guarantee.CAUSAL, b"", pack_payloads([b"x"])).cost


def test_long_conditions_are_not_kept_in_large_numbers_after_they_were_parsed() -> None:
    """4,096 parsed conditions of 4 KB took up to 1 GB that nobody was charged for."""
    texts = [f"{LONG} or b = {number}" for number in range(2 * predicate_module.LONG_KEPT)]
    parsed = [parse_predicate("t", text).where for text in texts]
    assert parse_predicate("u", texts[-1]).where is parsed[-1], "filters with the same condition share it"
    assert parse_predicate("t", texts[0]).where is not parsed[0]
    short = [parse_predicate("t", f"b = {number}") for number in range(2 * predicate_module.LONG_KEPT)]
    assert parse_predicate("t", "b = 0") is short[0]


def test_parsing_is_charged_and_refused_by_the_limit_of_conditions() -> None:
    """What was refused because there were too many conditions had been parsed: 2.7 ms for 4 KB, without an end."""
    quotas, session = Quotas(), ClientSession("c", 1, 0, limits=ClientLimits(identity_condition_bytes=1_000))
    quotas.enter(session)
    quotas.charge_parsing(session, 2_000, 0)
    with pytest.raises(LimitError, match=r"limit identity_condition_bytes"):
        quotas.charge_parsing(session, 1, 0)
    with pytest.raises(LimitError):
        quotas.charge_parsing(session, 1_001, 8_000_000)
    quotas.charge_parsing(session, 1_000, 8_000_000)


def test_a_client_that_brings_along_too_many_conditions_is_cut_off_before_they_are_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions_module, "read_held", lambda held: pytest.fail("it is parsed"))
    house = House()
    session = house.sessions.arrive("c", 1, 0, limits=ClientLimits(identity_condition_bytes=1_000))
    held = tuple(HeldSubscription(id, "t", LONG, ()) for id in range(10))
    with pytest.raises(PeerError, match="limit identity_condition_bytes"):
        house.sessions.check_held(session, Attend(0, subscriptions=held), 0, house.out)


def test_conditions_of_readers_are_parsed_once_for_all_filters_and_when_it_is_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request with 64 filters parsed its condition 64 times, for nothing: 50 requests took 8 s."""
    parsed: list[str] = []

    def parse(topic_filter: str, where: str | None) -> Predicate:
        parsed.append(topic_filter)
        return parse_predicate(topic_filter, where)

    monkeypatch.setattr(recorder_module, "parse_predicate", parse)
    events = keeping(StubStack())
    asked = ReadEvents(0, "a", LONG, "", -1, 0, 1000, also=tuple(f"a/{number}" for number in range(FILTERS_MAX - 1)))
    fetches = [effect for effect in _ask_all(events, asked, 50) if isinstance(effect, FetchEvents)]
    assert len(fetches) == 1 and len(parsed) == FILTERS_MAX, "the others wait until this one is paid off"


def test_comparing_topics_with_many_filters_is_charged_and_ends_a_page() -> None:
    """64 filters and 65 topics of each event: a page took seconds and cost nothing."""
    events = keeping(StubStack())
    also = tuple(f"a/{number}" for number in range(FILTERS_MAX - 1))
    [fetch] = _ask_all(events, ReadEvents(0, "a", None, "", -1, 0, 1000, also=also), 1)
    assert isinstance(fetch, FetchEvents)
    keys = tuple(f"k{number}/t#k" for number in range(64))
    bundle = Bundle("p", 1, 1, 1, 1, "z", keys, Guarantee.CAUSAL, b"", pack_payloads([b""]))
    kept = tuple(Kept(position, 1, event_record(4, -1, bundle)) for position in range(100))
    told = events.step(EventsFetched(fetch.token, kept, 0, 100, ""), 1)
    [end] = [effect.message for effect in told if isinstance(effect, Send)]
    assert isinstance(end, EventsEnd) and 1 <= end.following < 20
    [waits] = _ask_all(events, ReadEvents(1, "a", None, "", -1, 0, 1000), 1)
    assert not isinstance(waits, FetchEvents), "what the page cost is not paid off yet"


def _ask_all(events: EventRecorder, asked: Any, count: int) -> list[Any]:
    replaced = [msgspec.structs.replace(asked, id=id) for id in range(count)]
    return [effect for message in replaced for effect in events.step(Received("c", message), 0)]


def _count_moves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the calls that put portions into a queue, for each portion, or take all out of it."""
    moves: list[str] = []

    def counted(name: str) -> Any:
        original = getattr(WaitingPortions, name)

        def call(self: WaitingPortions, *portions: Any) -> Any:
            moves.extend([name] * (len(portions[0]) if name == "put_back" else 1))
            return original(self, *portions)

        return call

    for name in ("append", "appendleft", "put_back", "take_all"):
        monkeypatch.setattr(WaitingPortions, name, counted(name))
    return moves


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_consumer_that_comes_and_goes_costs_what_it_has_and_not_what_waits(
    is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that waited was sorted when a consumer left, and looked at when one came that had something: 1.4 s for
    a million messages, as often as a client likes."""
    scene = Scene(is_shared)
    scene.join("a", window=3)
    for number in range(1_000):
        scene.publish(1, *(("k",) if number % 2 else ()))
    given = scene.hand_out()
    moves = _count_moves(monkeypatch)
    scene.queue.leave("a")
    scene.join("a", window=3, has=tuple(Span("p", "ordered", 1, number, number) for _, number, _ in given))
    assert 0 < len(moves) <= 2 * len(given) + 2
    scene.queue.leave("a")
    scene.join("b", window=1_000)
    assert [number for _, number, _ in scene.hand_out()] == list(range(1, 1_001)), "in their old places"


def test_a_consumer_has_no_more_by_its_own_account_than_it_can_have_been_handed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sharing_module, "CLAIMED_MAX", 10)
    scene = Scene(is_shared=False)
    scene.join("a", window=100)
    for _ in range(50):
        scene.publish()
    scene.hand_out()
    scene.queue.leave("a")
    scene.join("liar", has=(Span("p", "ordered", 1, 1, 1 << 60),))
    assert scene.queue.consumers["liar"].count == 10 and scene.queue.waiting == 40


def test_a_bundle_is_shared_among_a_bounded_number_of_consumers() -> None:
    """With 1,024 consumers each of its messages was a bundle of its own, made from the whole: 0.2 s for 3 KB."""
    scene = Scene(is_shared=True)
    for number in range(1_024):
        scene.join(f"c{number}")
    scene.publish(1_024)
    assert len({name for name, _, _ in scene.hand_out()}) == sharing_module.PORTIONS_MAX


def test_a_client_that_comes_from_elsewhere_leaves_a_bounded_number_of_gaps_in_its_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With numbers 1, 3, 5 and so on its session remembered every publication for as long as it lasted."""
    monkeypatch.setattr(session_module, "GAPS_MAX", 10)
    session = ClientSession("c", 1, 0)
    session.moved = True
    for number in range(11):
        session.check_next(_numbered(1 + 2 * number))
    with pytest.raises(BoundError, match="10 were left before"):
        session.check_next(_numbered(23))


def _numbered(first: int) -> Bundle:
    return Bundle("c", 1, first, 1, 1, "t", (), Guarantee.CAUSAL, b"", pack_payloads([b"x"]))


def test_what_consumers_say_is_done_and_is_not_here_is_remembered_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a broker that took a subscription over, each acknowledgement of every other number took memory for good."""
    monkeypatch.setattr(progress_module, "ISLANDS_MAX", 10)
    scene = Scene(is_shared=False)
    scene.queue.again_below = 1_000
    scene.join("a")
    scene.acknowledge("a", *range(2, 100, 2))
    for _ in range(99):
        scene.publish()
    given = [number for _, number, _ in scene.hand_out()]
    assert given == [number for number in range(1, 100) if number % 2 or number > 20], "the rest is handed out again"
