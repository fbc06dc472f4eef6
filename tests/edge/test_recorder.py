"""A client inside a broker writes down what it is given, and answers those who read it."""

from collections.abc import Sequence
from typing import Any

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
)
from resprout.core.event_journal import EventsFetched, FetchEvents, Kept, RecordEvent
from resprout.core.guarantee import Guarantee
from resprout.core.names import check_name
from resprout.edge.broker.event_record import event_record, read_event
from resprout.edge.broker.recorder import PAGE_BYTES, READS_MAX, EventRecorder, own_name
from resprout.edge.messages import (
    Attend,
    Delivery,
    EventRead,
    EventsEnd,
    Extra,
    ReadEvents,
    Serving,
    Subscribe,
    Subscribed,
    Taken,
)

ME = "b0.events"
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


def said(stack: StubStack) -> list[Any]:
    return [event.message for event in stack.heard if isinstance(event, Received) and event.peer == ME]


def test_to_the_stack_it_is_a_client_that_subscribes_as_soon_as_it_is_served() -> None:
    stack = StubStack()
    stack.answers[Attend] = [Send(ME, SERVING)]
    stack.answers[Subscribe] = [Send(ME, Subscribed(1, ()))]
    out = recorder(stack).start(0)
    assert isinstance(stack.heard[0], LinkUp) and (stack.heard[0].peer, stack.heard[0].role) == (ME, "client")
    assert said(stack) == [Attend(0), Subscribe(1, "a", None), Subscribe(2, "b/#", None)]
    assert [effect.kind for effect in out if isinstance(effect, Note)] == ["began", "events"]
    assert not [effect for effect in out if isinstance(effect, Send)], "nobody else hears of it"


def test_an_event_is_written_before_anybody_hears_that_it_was_taken() -> None:
    stack = StubStack()
    machine = recorder(stack)
    machine.start(0)
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
    assert kept is not None and (kept.life, kept.tseq, kept.bundle) == (4, 9, bundle())
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
    machine = recorder(stack)
    machine.start(0)
    heard = len(stack.heard)
    assert ask(machine, where="amount > 5", size=1 << 40) == [FetchEvents(1, 0, 0, PAGE_BYTES)]
    records = [bundle("a", (1, 9, 8)), bundle("z", (9,)), bundle("a", (2,)), bundle("a", (7, 6), first=5)]
    kept = [Kept(10 + n, 100 + n, event_record(4, -1, each)) for n, each in enumerate(records)]
    kept.insert(2, Kept(50, 0, b"noise"))
    out = machine.step(EventsFetched(1, kept, 10, 99), 0)
    sent = [effect.message for effect in out if isinstance(effect, Send) and effect.peer == "c"]
    first, second, end = sent
    assert isinstance(first, EventRead) and (first.position, first.offsets, first.bundle.count) == (10, (1, 2), 2)
    assert isinstance(second, EventRead) and (second.position, second.offsets, second.time_us) == (13, None, 103)
    assert end == EventsEnd(3, "b0.x", 14, 10, 99, life=4)
    assert len(stack.heard) == heard, "the stack hears nothing of it"
    assert machine.step(EventsFetched(1, kept, 10, 99), 0) == []


def test_what_matches_any_of_several_filters_is_read_once_and_the_life_is_told_of_what_matches_none() -> None:
    machine = recorder(StubStack())
    machine.start(0)
    ask(machine, also=("#", "b"), until=13)
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
    machine = recorder(StubStack())
    machine.may_read = lambda client, topic_filter: topic_filter == "a"
    assert refusal(ask(machine, filter="#")) == "c may not subscribe to #"
    assert "filter" in refusal(ask(machine, filter="a/#/b"))
    assert refusal(ask(machine, also=("a", "b"))) == "c may not subscribe to b"
    assert "65 filters" in refusal(ask(machine, also=("a",) * 64))
    assert "b9.y" in refusal(ask(machine, journal="b9.y", position=5))
    for _ in range(READS_MAX):
        assert isinstance(ask(machine)[0], FetchEvents)
    assert "wait for their answers" in refusal(ask(machine))
    assert isinstance(ask(machine, client="d")[0], FetchEvents), "others may"
    machine.step(LinkDown("c", "gone"), 0)
    assert isinstance(ask(machine)[0], FetchEvents), "what a client that is gone asked for is forgotten"


def test_nobody_else_is_served_under_its_name() -> None:
    stack = StubStack()
    machine = recorder(stack)
    machine.start(0)
    heard = len(stack.heard)
    assert machine.step(LinkUp(ME, "client", 9, 1_000), 0) == [Close(ME, "b0.events is a name of the broker itself")]
    assert machine.step(Received(ME, Attend(0)), 0) == [] and len(stack.heard) == heard
    assert own_name("b" * 64) != own_name("b" * 63 + "c") and len(own_name("b" * 64)) == 64
    check_name(own_name("b" * 64))


def test_what_could_not_be_read_is_told() -> None:
    machine = recorder(StubStack())
    machine.start(0)
    ask(machine, position=7)
    (effect,) = machine.step(EventsFetched(1, (), 0, 0, "position 7 is not kept"), 0)
    assert isinstance(effect, Send) and effect.message == EventsEnd(3, "b0.x", 7, 0, 0, "position 7 is not kept")
