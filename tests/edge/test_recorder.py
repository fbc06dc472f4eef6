"""A client inside a broker writes down what it is given, and answers those who read it."""

from collections.abc import Sequence
from typing import Any

import pytest

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.contract import (
    Close,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    Note,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from resprout.core.errors import NameRefusedError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_name
from resprout.edge.broker.event_record import CoverageMark, KeptEvent, event_record, mark_record, read_event
from resprout.edge.broker.recorder import (
    FETCHES_MAX,
    PAGE_BYTES,
    READ_AGAIN_US,
    READS_MAX,
    UNREAD_BYTES,
    EventRecorder,
    ReadsDue,
    own_name,
)
from resprout.edge.messages import (
    Attend,
    Delivery,
    EventGap,
    EventRead,
    EventsEnd,
    Extra,
    ReadEvents,
    Serving,
    Subscribe,
    Subscribed,
    Taken,
)
from resprout.journal.interface import EventsFetched, FetchEvents, Kept, RecordEvent

ME = own_name("b0")
SERVING = Serving("any", tuple(Guarantee), 1, extras=(Extra.FORGETTING,))


def bundle(topic: str = "a", amounts: Sequence[int] = (), first: int = 1) -> Bundle:
    count = len(amounts) or 1
    rows = pack_attributes([{"amount": amount} for amount in amounts])
    payloads = pack_payloads([b"%d" % n for n in range(count)])
    return Bundle("p", 1, first, count, 7, topic, (), Guarantee.CAUSAL, rows, payloads)


class StubStack:
    """Answers what the test says."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.answers: dict[type, list[Effect]] = {}

    def start(self, now_us: int) -> list[Effect]:
        return [Note("began", {})]

    def step(self, event: Event, now_us: int) -> list[Effect]:
        self.heard.append(event)
        said = event.message if isinstance(event, Received) else event
        return self.answers.pop(type(said), [])


def recorder(stack: StubStack, *filters: str) -> EventRecorder:
    return EventRecorder(stack, "b0", 4, "b0.x", filters or ("a", "b/#"))


def keeping(stack: StubStack, earlier: Kept | None = None) -> EventRecorder:
    """One whose subscriptions are confirmed."""
    stack.answers[Attend] = [Send(ME, SERVING)]
    stack.answers[Subscribe] = [Send(ME, Subscribed(1, ())), Send(ME, Subscribed(2, ()))]
    machine = EventRecorder(stack, "b0", 4, "b0.x", ("a", "b/#"), earlier)
    machine.start(0)
    return machine


def said(stack: StubStack) -> list[Any]:
    return [event.message for event in stack.heard if isinstance(event, Received) and event.peer == ME]


def test_to_the_stack_it_is_a_client_that_subscribes_as_soon_as_it_is_served() -> None:
    stack = StubStack()
    stack.answers[Attend] = [Send(ME, SERVING)]
    machine = recorder(stack)
    out = [*machine.start(0)]
    assert isinstance(stack.heard[0], LinkUp) and (stack.heard[0].peer, stack.heard[0].role) == (ME, "client")
    assert said(stack) == [Attend(0), Subscribe(1, "a", None), Subscribe(2, "b/#", None)]
    stack.answers[LinkDown] = [Send(ME, Subscribed(2, ()))]
    out += machine.step(LinkDown("x", ""), 0)
    assert [effect.kind for effect in out if isinstance(effect, Note)] == ["began"]
    stack.answers[LinkDown] = [Send(ME, Subscribed(1, ()))]
    out += machine.step(LinkDown("x", ""), 0)
    assert [effect.kind for effect in out if isinstance(effect, Note)] == ["began", "events", "events"]
    assert not [effect for effect in out if isinstance(effect, Send)], "nobody else hears of it"
    assert stack.heard[0].internal, "no other broker waits for it when this one dies"


def test_an_event_is_written_before_anybody_hears_that_it_was_taken() -> None:
    stack = StubStack()
    machine = keeping(stack)
    stack.answers[LinkDown] = [
        Send("x", "before"),
        Send(ME, Delivery(bundle(), 1, 0, None, tseq=9)),
        Send("x", "behind"),
    ]
    stack.answers[Taken] = [Send("x", "it was taken")]
    out = machine.step(LinkDown("c", "gone"), 5)
    assert [effect.message for effect in out if isinstance(effect, Send)] == ["before", "behind", "it was taken"]
    (record,) = [effect for effect in out if isinstance(effect, RecordEvent)]
    assert out.index(record) < out.index(Send("x", "it was taken"))
    kept = read_event(record.event)
    assert kept == KeptEvent(4, 9, bundle())
    assert said(stack)[-1] == Taken(1)


def test_clients_are_told_that_they_can_read_here() -> None:
    stack = StubStack()
    machine = recorder(stack)
    machine.start(0)
    stack.answers[LinkDown] = [Send("c", SERVING)]
    (told,) = machine.step(LinkDown("x", ""), 0)
    assert isinstance(told, Send) and told.message.extras == (Extra.FORGETTING, Extra.READING)


def ask(machine: EventRecorder, client: str = "c", **fields: Any) -> Sequence[Effect]:
    asked = {"id": 3, "filter": "a", "where": None, "journal": "", "position": 0, "time_us": 0, "size": 1_000, **fields}
    return machine.step(Received(client, ReadEvents(**asked)), 0)


def test_what_is_read_is_fetched_filtered_and_given_with_its_position() -> None:
    stack = StubStack()
    machine = keeping(stack)
    heard = len(stack.heard)
    assert ask(machine, where="amount > 5", position=10, size=1 << 40) == [FetchEvents(1, 10, 0, PAGE_BYTES)]
    records = [bundle("a", (1, 9, 8)), bundle("z", (9,)), bundle("a", (2,)), bundle("a", (7, 6), first=5)]
    kept = [Kept(10 + n, 100 + n, event_record(4, -1, each)) for n, each in enumerate(records)]
    out = machine.step(EventsFetched(1, kept, 10, 99), 0)
    sent = [effect.message for effect in out if isinstance(effect, Send) and effect.peer == "c"]
    first, second, end = sent
    assert isinstance(first, EventRead) and (first.position, first.offsets, first.bundle.count) == (10, (1, 2), 2)
    assert isinstance(second, EventRead) and (second.position, second.offsets, second.time_us) == (13, None, 103)
    assert end == EventsEnd(3, "b0.x", 14, 10, 99, life=4)
    assert len(stack.heard) == heard, "the stack hears nothing of it"
    assert machine.step(EventsFetched(1, kept, 10, 99), 0) == []


def test_what_matches_any_of_several_filters_is_read_once_and_the_life_is_told_of_what_matches_none() -> None:
    machine = keeping(StubStack())
    ask(machine, also=("#", "b"), position=10, until=13)
    records = [bundle("a"), bundle("b"), bundle("$c"), bundle("a")]
    kept = [Kept(10 + n, 100, event_record(4 + n, -1, each)) for n, each in enumerate(records)]
    out = machine.step(EventsFetched(1, kept, 10, 99), 0)
    *read, end = [effect.message for effect in out if isinstance(effect, Send)]
    assert [event.position for event in read] == [10, 11] and end == EventsEnd(3, "b0.x", 13, 10, 99, life=6)


def refusal(effects: Sequence[Effect]) -> str:
    (effect,) = effects
    assert isinstance(effect, Send) and isinstance(effect.message, EventsEnd)
    return effect.message.reason


def test_who_may_not_subscribe_may_not_read_and_what_cannot_be_is_refused() -> None:
    machine = keeping(StubStack())
    machine.may_read = lambda client, topic_filter: topic_filter == "a"
    assert refusal(ask(machine, filter="#")) == "c may not subscribe to #"
    assert "filter" in refusal(ask(machine, filter="a/#/b"))
    assert refusal(ask(machine, also=("a", "b"))) == "c may not subscribe to b"
    assert "65 filters" in refusal(ask(machine, also=("a",) * 64))
    assert "b9.y" in refusal(ask(machine, journal="b9.y", position=5))
    fetches = [effect for _ in range(READS_MAX) for effect in ask(machine)]
    assert len(fetches) == FETCHES_MAX and all(isinstance(effect, FetchEvents) for effect in fetches)
    assert "wait for their answers" in refusal(ask(machine))
    assert isinstance(ask(machine, client="d")[0], FetchEvents), "others may"
    machine.step(LinkDown("c", "gone"), 0)
    assert isinstance(ask(machine)[0], FetchEvents), "what a client that is gone asked for is forgotten"


def test_a_client_that_does_not_receive_what_it_was_given_is_given_no_more() -> None:
    """Attack 8: answers to reads are outside the window, so 16 clients that did not read took 1.4 GB."""
    machine = keeping(StubStack())
    unread = {"c": UNREAD_BYTES + 1}
    machine.unread = lambda client: unread.get(client, 0)
    assert ask(machine) == [SetTimer(ReadsDue(), READ_AGAIN_US)]
    assert ask(machine) == [], "one timer looks at all of them"
    assert isinstance(ask(machine, client="d")[0], FetchEvents), "others are answered"
    assert machine.step(TimerFired(ReadsDue()), READ_AGAIN_US) == [SetTimer(ReadsDue(), 2 * READ_AGAIN_US)]
    unread["c"] = UNREAD_BYTES
    fetches = machine.step(TimerFired(ReadsDue()), 2 * READ_AGAIN_US)
    assert [effect.token for effect in fetches if isinstance(effect, FetchEvents)] == [2, 3]


def test_the_next_read_is_fetched_when_an_answer_has_left() -> None:
    machine = keeping(StubStack())
    fetches = [effect for _ in range(3) for effect in ask(machine)]
    assert len(fetches) == FETCHES_MAX == 2
    out = machine.step(EventsFetched(1, (), 0, 0), 0)
    assert [type(effect) for effect in out] == [Send, FetchEvents]


def test_reading_with_a_condition_that_takes_long_gives_short_pages_and_makes_its_identity_wait() -> None:
    machine = keeping(StubStack())
    machine.party_of = lambda client: "crowd"
    where = f"name like '{'%_a_b' * 40}'"
    ask(machine, where=where, position=1)
    kept = [Kept(n, 100 + n, event_record(4, -1, bundle("a", (1,) * 20))) for n in range(1, 30)]
    out = machine.step(EventsFetched(1, kept, 1, 99), 0)
    [end] = [effect.message for effect in out if isinstance(effect, Send)]
    assert isinstance(end, EventsEnd) and not end.reason
    assert 1 < end.following < 30, "the client goes on from there"
    [timer] = ask(machine, client="d")
    assert isinstance(timer, SetTimer), "it is the same identity"
    assert isinstance(machine.step(TimerFired(ReadsDue()), 1_000_000)[0], FetchEvents)


def test_nobody_else_can_be_called_like_it() -> None:
    """Attack 10: a client called `b0.events` stopped the journal of b0 without a word."""
    with pytest.raises(NameRefusedError):
        check_name(own_name("b0"))


def test_what_could_not_be_read_is_told() -> None:
    machine = recorder(StubStack())
    machine.start(0)
    ask(machine, position=7)
    (effect,) = machine.step(EventsFetched(1, (), 0, 0, "position 7 is not kept"), 0)
    assert isinstance(effect, Send) and effect.message == EventsEnd(3, "b0.x", 7, 0, 0, "position 7 is not kept")


# -- gaps ------------------------------------------------------------------------------------------------------------


def marks(effects: Sequence[Effect]) -> list[CoverageMark]:
    found = [read_event(effect.event) for effect in effects if isinstance(effect, RecordEvent)]
    return [one for one in found if isinstance(one, CoverageMark)]


def test_a_life_writes_a_mark_before_its_first_event_and_keeps_nothing_before_it_is_confirmed() -> None:
    stack = StubStack()
    stack.answers[Attend] = [Send(ME, SERVING)]
    earlier = Kept(41, 70, event_record(3, -1, bundle()))
    machine = EventRecorder(stack, "b0", 4, "b0.x", ("a",), earlier)
    machine.start(0)
    stack.answers[LinkDown] = [Send(ME, Delivery(bundle(), 1, 0, None))]
    assert not [each for each in machine.step(LinkDown("x", ""), 0) if isinstance(each, RecordEvent)]
    assert said(stack)[-1] == Taken(1)
    stack.answers[LinkDown] = [Send(ME, Subscribed(1, ())), Send(ME, Delivery(bundle(first=2), 1, 0, None))]
    out = machine.step(LinkDown("x", ""), 0)
    records = [read_event(each.event) for each in out if isinstance(each, RecordEvent)]
    assert records == [CoverageMark(4, 3, 70), KeptEvent(4, -1, bundle(first=2))]


def test_who_reads_before_the_mark_is_written_waits_for_it() -> None:
    stack = StubStack()
    stack.answers[Attend] = [Send(ME, SERVING)]
    machine = EventRecorder(stack, "b0", 4, "b0.x", ("a",))
    machine.start(0)
    assert ask(machine) == [] == ask(machine, client="gone")
    machine.step(LinkDown("gone", ""), 0)
    stack.answers[LinkDown] = [Send(ME, Subscribed(1, ()))]
    out = machine.step(LinkDown("x", ""), 0)
    assert marks(out) == [CoverageMark(4)]
    assert [each for each in out if isinstance(each, FetchEvents)] == [FetchEvents(1, 0, 0, 1_000)]


def test_a_recorder_that_is_closed_says_so_in_the_journal() -> None:
    stack = StubStack()
    machine = keeping(stack)
    stack.answers[LinkDown] = [Close(ME, "b0:events restarted"), Send(ME, Delivery(bundle(), 1, 0, None))]
    out = machine.step(LinkDown("x", ""), 0)
    assert marks(out) == [CoverageMark(4, ended="b0:events restarted")]
    assert len([each for each in out if isinstance(each, RecordEvent)]) == 1, "nothing is kept behind it"


def page(machine: EventRecorder, kept: Sequence[Kept], first: int = 0, **fields: Any) -> tuple[list[int], EventsEnd]:
    """The positions of what is read, and the end of the answer."""
    (fetch,) = ask(machine, **fields)
    assert isinstance(fetch, FetchEvents)
    out = machine.step(EventsFetched(fetch.token, kept, first, 99), 0)
    *read, end = [effect.message for effect in out if isinstance(effect, Send)]
    return [event.position for event in read], end


def kept_at(position: int, life: int = 3) -> Kept:
    return Kept(position, 1_000_000 * position, event_record(life, -1, bundle()))


def mark_at(position: int, *fields: Any) -> Kept:
    return Kept(position, 1_000_000 * position, mark_record(CoverageMark(*fields)))


DOWN = "broker b0 was down between its lives 3 and 4"


def test_a_page_ends_before_a_gap_and_one_that_would_begin_with_it_is_refused() -> None:
    machine = keeping(StubStack())
    gap = EventGap(7, 8, 6_000_000, 7_000_000, DOWN)
    refused = f"events before position 8 are missing: {DOWN}"
    kept = [kept_at(5), kept_at(6), mark_at(7, 4, 3, 6_000_000), kept_at(8, 4)]
    assert page(machine, kept, position=5) == ([5, 6], EventsEnd(3, "b0.x", 7, 0, 99, "", 3))
    assert page(machine, kept[2:], position=7) == ([], EventsEnd(3, "b0.x", 7, 0, 99, refused, 0, (gap,)))
    assert page(machine, kept[3:], position=8) == ([8], EventsEnd(3, "b0.x", 9, 0, 99, "", 4))
    told = page(machine, kept, position=5, allow_gaps=True)
    assert told == ([5, 6, 8], EventsEnd(3, "b0.x", 9, 0, 99, "", 4, (gap,)))


def test_the_mark_at_the_beginning_of_a_journal_is_no_gap() -> None:
    kept = [mark_at(0, 3), kept_at(1)]
    assert page(keeping(StubStack()), kept, position=-1) == ([1], EventsEnd(3, "b0.x", 2, 0, 99, "", 3))


def test_events_that_were_left_out_are_a_gap_with_their_reason_also_at_the_beginning() -> None:
    machine = keeping(StubStack())
    _, end = page(machine, [mark_at(0, 3, 0, 0, "", "left out 12 bundles: no room")], position=-1)
    assert end.gaps == (EventGap(0, 1, 0, 0, "broker b0 left out 12 bundles: no room"),)
    _, end = page(machine, [mark_at(7, 3, 3, 5, "", "left out 12 bundles: no room")], position=7)
    assert end.gaps == (EventGap(7, 8, 5, 7_000_000, "broker b0 left out 12 bundles: no room"),)
    _, end = page(machine, [mark_at(7, 4, 3, 5, "", "left out 12 bundles: no room")], position=7)
    assert end.gaps[0].reason == f"{DOWN}, and left out 12 bundles: no room"


def test_whoever_asks_for_the_latest_position_gets_the_one_before_a_mark_that_is_not_written_yet() -> None:
    kept = [Kept(98, 0, mark_record(CoverageMark(3, 3, 5, "", "has left out 12 bundles")))]
    assert page(keeping(StubStack()), kept, position=-2) == ([], EventsEnd(3, "b0.x", 98, 0, 99))


def test_missing_positions_records_that_cannot_be_read_and_a_recorder_that_was_closed_are_gaps() -> None:
    machine = keeping(StubStack())
    _, end = page(machine, [kept_at(9)], position=7)
    assert (end.gaps[0].position, end.gaps[0].following) == (7, 9) and "damaged and mended" in end.reason
    _, end = page(machine, [Kept(7, 1, b"noise")], position=7)
    assert (end.gaps[0].position, end.gaps[0].following) == (7, 8) and "cannot read" in end.reason
    _, end = page(machine, [mark_at(7, 3, 0, 0, "replaced")], position=7)
    assert end.gaps[0].until_us == 0 and "stopped keeping events in its life 3: replaced" in end.reason


def test_a_time_that_retention_has_passed_is_a_gap_and_the_beginning_is_none() -> None:
    machine = keeping(StubStack())
    kept = [kept_at(7)]
    positions, end = page(machine, kept, 7, position=-1, time_us=6_500_000)
    assert positions == [] and "broker b0 does not keep them any longer" in end.reason
    assert page(machine, kept, 7, position=-1, time_us=7_000_000)[0] == [7]
    assert page(machine, kept, 7, position=-1, time_us=0)[0] == [7], "the beginning is that of what is kept"
    assert page(machine, kept, 3, position=-1, time_us=6_500_000)[0] == [7], "nothing was kept in between"
