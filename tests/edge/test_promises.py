"""What a broker promises its clients, each promise once, against every stack alike.

A stack is added by its name; what it does not offer it says (`Serving`), and then nothing is promised.
"""

from itertools import pairwise
from typing import Any, Final

import msgspec
import pytest

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.durable_messages import WhenFull
from resprout.edge.messages import (
    Attend,
    Delivery,
    Extra,
    ForgetBrokers,
    HeldSubscription,
    Publish,
    Serving,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Taken,
    TopicsReached,
    Turned,
    Unsubscribe,
    Unsubscribed,
)  # fmt: skip
from resprout.edge.requests import (
    PublishRequest,
    Refused,
    SessionLost,
    SubscribeRequest,
    SubscriptionConfirmed,
    UnsubscribeRequest,
)
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, OptionValue, Scenario
from resprout.stacks.stack import DEFAULT, find_stack
from resprout_lab import SYSTEMS
from tests.edge.desk import Desk
from tests.edge.puppets import Puppet
from tests.stacks.asking import Asked, Told, ask

STACKS: Final = (DEFAULT, *SYSTEMS)

NARROW: Final[dict[str, dict[str, OptionValue]]] = {
    "resprout": {"subscriber_bytes": 65_536, "log_bytes": 65_536},
    "ginger": {"held_max": 20},
    "flood": {"buffer": 20},
    "cbcast": {"buffer": 20},
    "causal-barriers": {"buffer": 20},
    "delta": {"buffer": 20},
    "sites": {"buffer": 20},
    "locamu": {"buffer": 20},
    "gossip": {"buffer": 20},
    "scribe": {"buffer": 20},
}
"""Options under which a broker keeps little before it holds its publishers back. A stack without such an entry never
does."""

pytestmark = pytest.mark.parametrize("stack", STACKS)


# -- subscriptions -----------------------------------------------------------------------------------------------------


def chain(stack: str) -> Scenario:
    """Three brokers, and a client at either end that does nothing unasked."""
    brokers = "".join(
        f'[[broker]]\nname = "b{no}"\nlatency = "3ms"\n' + (f'parent = "b{no - 1}"\n' if no else "") for no in range(3)
    )
    clients = "".join(
        f'[[client]]\nname = "{name}"\nbroker = "{home}"\nlatency = "1ms"\n'
        for name, home in (("near", "b0"), ("far", "b2"))
    )
    return parse_scenario(f'stack = "{stack}"\nseed = 3\ntime_limit = "60s"\n{brokers}{clients}')


def publications(stack: str, first_us: int, count: int, every_us: int = 4_000, by: str = "near") -> list[Asked]:
    strongest = max(g for g in find_stack(stack).guarantees if g is not Guarantee.TOTAL)
    request = PublishRequest("t", b"x", strongest)
    return [Asked(first_us + no * every_us, by, request) for no in range(count)]


def delivered(told: Told, client: str) -> list[int]:
    return [row.seq or 0 for row in told.rows if row.kind == "deliver" and row.node == client]


def death(stack: str) -> tuple[FaultSpec, ...]:
    """Of the broker at the far end; where clients wait for their own broker, it returns."""
    crash = FaultSpec(1_300_000, FaultKind.CRASH, nodes=("b2",))
    found = find_stack(stack)
    returns = found.survives(found.parse_options({})).all_return
    return (crash, FaultSpec(1_500_000, FaultKind.RECOVER, nodes=("b2",))) if returns else (crash,)


def test_a_confirmed_subscription_misses_nothing(stack: str) -> None:
    asked = [*publications(stack, 1_000_000, 100), Asked(1_150_000, "far", SubscribeRequest("t"))]
    told = ask(chain(stack), (), asked)
    (confirmed,) = told.news(SubscriptionConfirmed, "far")
    owed = [no for no, one in enumerate(asked[:100], start=1) if one.at_us > confirmed.time_us]
    got = delivered(told, "far")
    assert 30 < len(owed) < 100, "it came in the middle of them"
    assert got[-len(owed) :] == owed, "all of them, and in order"
    assert all(later == earlier + 1 for earlier, later in pairwise(got)), "it begins somewhere, and has no gaps"


def test_a_subscription_is_confirmed_once_for_each_that_was_asked(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("s")
    desk.say("s", Subscribe(1, "t", None), Subscribe(2, "t", None), Subscribe(3, "u/+", "n > 1"))
    assert [message.id for message in desk.heard("s") if isinstance(message, Subscribed)] == [1, 2, 3]


def test_a_filter_that_cannot_be_is_refused_and_costs_nothing_else(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("s", "p")
    desk.say("s", Subscribe(1, "a/#/b", None), Subscribe(2, "t", "n >"), Subscribe(3, "t", None))
    first, second, third = [message for message in desk.heard("s") if not isinstance(message, TopicsReached)]
    assert isinstance(first, SubscribeRefused) and isinstance(second, SubscribeRefused) and first.reason
    assert isinstance(third, Subscribed) and third.id == 3
    desk.publish("p")
    assert desk.given("s") == [1]


def test_an_end_is_confirmed_after_the_last_delivery_and_nothing_comes_after_it(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("p")
    desk.serve("s", room=1)
    desk.say("s", Subscribe(1, "t", None))
    desk.heard("s")
    desk.publish("p", times=4)
    desk.say("s", Unsubscribe(1))
    desk.publish("p")
    assert desk.given("s") == [1], "the others wait for room, and so does the confirmation"
    desk.room("s")
    *deliveries, ended = desk.heard("s")
    assert [message.bundle.first for message in deliveries] == [2, 3, 4]
    assert ended == Unsubscribed(1)
    desk.publish("p")
    assert desk.heard("s") == []


def test_of_two_subscriptions_to_the_same_one_may_end(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("s", "p")
    desk.say("s", Subscribe(1, "t", None), Subscribe(2, "t", None), Unsubscribe(1))
    assert Unsubscribed(1) in desk.heard("s")
    desk.publish("p")
    assert desk.given("s") == [1]


# -- receipts ----------------------------------------------------------------------------------------------------------


def test_receipts_turn_in_order_and_delivered_only_when_all_readers_have_it(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("p", "s", "z")
    for reader in ("s", "z"):
        desk.say(reader, Subscribe(1, "t", None))
    desk.publish("p", times=3)
    turned = [(m.receipt, m.seq) for m in desk.heard("p") if isinstance(m, Turned)]
    assert [seq for receipt, seq in turned if receipt is ReceiptLevel.SAFE] == [1, 2, 3]
    assert not [seq for receipt, seq in turned if receipt is ReceiptLevel.DELIVERED]
    desk.say("s", Taken(3))
    desk.say("z", Taken(1))
    assert desk.heard("p") == _delivered(desk, 1)
    desk.say("z", Taken(3))
    assert desk.heard("p") == _delivered(desk, 3)


def test_what_nobody_reads_is_delivered_at_once(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("p")
    desk.publish("p", times=2)
    assert desk.heard("p")[-1] == Turned(_stream(desk), max(desk.stack.receipts), 2)


def test_a_reader_that_leaves_is_not_waited_for(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("p", "s")
    desk.say("s", Subscribe(1, "t", None))
    desk.publish("p")
    desk.heard("p")
    desk.say("s", Taken(9))
    assert "s" in desk.closed
    assert desk.heard("p") == _delivered(desk, 1)


def test_a_receipt_that_nobody_waits_for_comes_later_with_the_others(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("p")
    for _ in range(3):
        desk.say("p", Publish(desk.bundle("p"), awaits=0))
    early = [
        message for message in desk.heard("p") if isinstance(message, Turned) and message.receipt > ReceiptLevel.SAFE
    ]
    assert early == []
    desk.wait(1_000_000)
    assert Turned(_stream(desk), max(desk.stack.receipts), 3) in desk.heard("p")


def _delivered(desk: Desk, upto: int) -> list[Turned]:
    """What a publisher hears then: nothing from a stack that never says so."""
    told = [Turned(_stream(desk), ReceiptLevel.DELIVERED, upto)]
    return told if ReceiptLevel.DELIVERED in desk.stack.receipts else []


def _stream(desk: Desk) -> str:
    return desk.guarantee.stream


# -- guarantees --------------------------------------------------------------------------------------------------------


def test_what_is_offered_is_taken_and_what_is_not_is_refused_with_what_is(stack: str) -> None:
    serving = Desk(stack).serve("c")
    assert (serving.stack, serving.guarantees) == (stack, find_stack(stack).guarantees)
    fewer = msgspec.structs.replace(serving, guarantees=serving.guarantees[:1])
    for offer in (serving, fewer):
        for guarantee in Guarantee:
            client = Puppet(serving=offer)
            client.ask(PublishRequest("t", b"", guarantee))
            if guarantee in offer.guarantees:
                assert [message.bundle.guarantee for message in client.sent] == [guarantee]
            else:
                (refused,) = [news for news in client.told if isinstance(news, Refused)]
                words = ", ".join(g.label for g in offer.guarantees)
                assert refused.reason == f"the stack {stack!r} does not offer {guarantee.label!r}; it offers {words}"
                assert refused.definite and client.sent == []


def test_what_a_broker_does_not_offer_is_not_for_a_client_to_say(stack: str) -> None:
    desk = Desk(stack)
    serving = desk.serve("c")
    desk.say("c", ForgetBrokers(("b9",)))
    assert ("c" in desk.closed) is (Extra.FORGETTING not in serving.extras)


# -- slow readers ------------------------------------------------------------------------------------------------------


def test_a_slow_reader_is_given_what_it_has_room_for_and_the_rest_later_in_order(stack: str) -> None:
    desk = Desk(stack)
    desk.serve("p", "quick")
    desk.serve("slow", room=1)
    for reader in ("quick", "slow"):
        desk.say(reader, Subscribe(1, "t", None))
    desk.publish("p", times=5)
    assert desk.given("quick") == [1, 2, 3, 4, 5], "nobody waits for the other"
    assert desk.given("slow") == [1]
    desk.room("slow", 1)
    assert desk.given("slow") == [2]
    desk.room("slow")
    assert desk.given("slow") == [3, 4, 5]


def test_a_reader_that_takes_nothing_holds_back_the_publishers_until_it_does(stack: str) -> None:
    if stack not in NARROW:
        pytest.skip("this stack holds nobody back")
    desk = Desk(stack, **NARROW[stack])
    desk.serve("p", "s")
    desk.say("s", Subscribe(1, "t", None, WhenFull.BLOCK))
    published = 0
    while not desk.held:
        desk.publish("p")
        published += 1
        assert published < 5_000
    assert desk.held == ["p"]
    given = len(desk.given("s"))
    desk.say("s", Taken(given))
    assert desk.held == [], "and then it may go on"


# -- clients that return -----------------------------------------------------------------------------------------------


def test_a_client_that_returns_gets_what_it_missed_or_is_told_that_it_may_have_missed_something(stack: str) -> None:
    late = publications(stack, 20_000_000, 1)
    asked = [Asked(500_000, "far", SubscribeRequest("t")), *publications(stack, 1_000_000, 199), *late]
    told = ask(chain(stack), death(stack), asked)
    lost = told.news(SessionLost, "far")
    got = delivered(told, "far")
    assert got[-1] == 200, "it goes on at another broker, or when its own is back"
    assert got == sorted(set(got)), "nothing comes twice, or out of order"
    assert lost or got == list(range(1, 201))
    assert {"resprout": not lost, "ginger": not lost}.get(stack, True), "these make good what was missed"


def test_a_publisher_whose_broker_dies_loses_nothing_and_has_its_receipts(stack: str) -> None:
    asked = [Asked(500_000, "near", SubscribeRequest("t")), *publications(stack, 1_000_000, 200, by="far")]
    told = ask(chain(stack), death(stack), asked)
    assert delivered(told, "near") == list(range(1, 201))
    receipts = {row.seq for row in told.rows if row.kind == "receipt" and row.node == "far"}
    assert 200 in receipts


def test_an_end_that_was_asked_for_is_confirmed_by_the_next_broker(stack: str) -> None:
    asked = [
        Asked(500_000, "far", SubscribeRequest("t")),
        Asked(1_300_100, "far", UnsubscribeRequest("t")),
        *publications(stack, 1_000_000, 100),
    ]
    told = ask(chain(stack), death(stack), asked)
    got = delivered(told, "far")
    assert got == list(range(1, len(got) + 1)) and len(got) < 100


# -- clients that break the rules --------------------------------------------------------------------------------------


def _bad(desk: Desk, kind: str) -> list[Any]:
    match kind:
        case "a number that is taken":
            return [Subscribe(1, "t", None), Subscribe(1, "u", None)]
        case "more taken than given":
            return [Taken(1)]
        case "somebody else's publication":
            return [Publish(desk.bundle("good", first=9))]
        case "another life's":
            return [Publish(desk.bundle("bad", life=2))]
        case "a gap":
            return [Publish(desk.bundle("bad", first=1)), Publish(desk.bundle("bad", first=3))]
        case "an overlap":
            return [Publish(desk.bundle("bad", first=1, count=2)), Publish(desk.bundle("bad", first=2, count=2))]
        case "columns that do not fit":
            return [Publish(desk.bundle("bad", payloads=b"\xff\xff"))]
        case "asked to be served twice":
            return [Attend(0)]
        case _:
            return [Serving("x", (), 0)]


BAD: Final = (
    "a number that is taken", "more taken than given", "somebody else's publication", "another life's", "a gap",
    "an overlap", "columns that do not fit", "asked to be served twice", "a broker's word",
)  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_whoever_breaks_the_rules_is_cut_off_and_nobody_else_notices(stack: str, kind: str) -> None:
    desk = Desk(stack)
    desk.serve("good", "bad")
    desk.say("good", Subscribe(7, "t", None))
    desk.say("bad", *_bad(desk, kind))
    assert list(desk.closed) == ["bad"] and desk.closed["bad"]
    desk.say("bad", Subscribe(9, "t", None))
    desk.heard("good")
    desk.say("good", Publish(desk.bundle("good", first=1)))
    deliveries = [m.bundle.publisher for m in desk.heard("good") if isinstance(m, Delivery)]
    assert deliveries == ["good"] and list(desk.closed) == ["bad"]


@pytest.mark.parametrize(
    "first",
    [
        Subscribe(1, "t", None),
        Attend(0, ("b9",), (), (HeldSubscription(1, "a/#/b", None, ()),)),
        Attend(0, ("b9",), (), (HeldSubscription(1, "t", None, ()), HeldSubscription(1, "t", None, ()))),
    ],
)
def test_whoever_begins_wrongly_is_not_served(stack: str, first: Any) -> None:
    desk = Desk(stack)
    desk.serve("good")
    desk.come("bad")
    desk.say("bad", first)
    desk.wait(30_000_000)
    assert list(desk.closed) == ["bad"] and not any(isinstance(m, Serving) for m in desk.heard("bad"))


def test_a_client_machine_is_content_with_what_every_stack_says(stack: str) -> None:
    """What a broker tells a real client is what the client's half understands."""
    told = ask(chain(stack), (), [Asked(500_000, "far", SubscribeRequest("t")), *publications(stack, 1_000_000, 20)])
    assert delivered(told, "far") == list(range(1, 21)) and not told.news(SessionLost)
