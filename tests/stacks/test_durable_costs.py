"""What it costs everybody that consumers of a durable subscription come and go.

With 8,000 publishers every consumer that joined or left made its broker send 1.5 MB to each of its neighbours, these to
theirs, and everybody wrote it to disk. Each test counts marks or messages, none measures time.
"""

from typing import NoReturn

import msgspec
import pytest

from resprout.core.contract import LinkUp, Received, Send, TimerFired
from resprout.core.message_fields import Mark
from resprout.edge.durable_messages import NO_DROPS, Consume, Terms, WhenFull
from resprout.order.messages import Forward
from resprout.overlay.messages import Life, Ping
from resprout.stacks.resprout import spilling as spilling_module
from resprout.stacks.resprout.broker import Tick
from resprout.stacks.resprout.durable_state import DurableHeard, DurableKnown, DurableState
from resprout.stacks.resprout.durables import CHANGES_TOLD
from resprout.stacks.resprout.former import Former, KeptDurable, encode
from tests.stacks.test_durable_subscriptions import GROUP, began, make_tree, payloads, publish, settle
from tests.stacks.test_hostile import broker_with, bundle
from tests.stacks.tree import Tree

MARKS = tuple(Mark(f"p{number}", "ordered", 1, 7) for number in range(1, 2001))
WHOLE = DurableState("d", Terms("t", None, True), 1, Life("far", 1), "", 1, MARKS, MARKS)
PARTIAL = msgspec.structs.replace(WHOLE, edition=2, base=(), done=(), consumers=("k",), is_partial=True)


def states_told(tree: Tree, name: str) -> list[DurableState]:
    """What a broker has put on its way to others, and has not arrived."""
    told = [item for pair in tree.streams.busy() if pair[0] == name for _, item in tree.streams.between(*pair)]
    return [message.state for message in told if isinstance(message, DurableKnown)]


def make_home() -> Tree:
    """A chain of three brokers; the last one is the home of a subscription of which 2,000 publishers are done."""
    tree = make_tree()
    tree.consume("w0", "b2", "orders", GROUP)
    settle(tree)
    assert began(tree, "w0")
    tree.brokers["b2"].parts.client_book.durables.raise_done("orders", MARKS, (), NO_DROPS)
    settle(tree)
    return tree


def test_a_consumer_that_joins_or_leaves_repeats_no_marks() -> None:
    tree = make_home()
    marks = 0
    for number in range(1, 4):
        tree.consume(f"w{number}", "b2", "orders", GROUP)
        while not (told := states_told(tree, "b2")):
            tree.one()
        marks += sum(len(state.base) + len(state.done) + len(state.spans) for state in told)
        settle(tree)
        tree.lose(f"w{number}")
        settle(tree)
    assert marks == 0
    books = [tree.brokers[name].parts.client_book.durables for name in ("b0", "b1", "b2")]
    assert [len(book.done_of("orders")[0]) for book in books] == [2000] * 3
    assert len({book.states["orders"] for book in books}) == 1, "all know the same"


def test_consumers_that_come_and_go_many_times_between_signs_of_life_are_told_of_together() -> None:
    tree = make_home()
    home = tree.brokers["b2"]
    held = home.parts.durables.consumers.held["orders"]
    edition = held.edition
    for number in range(20):
        tree.step("b2", LinkUp(f"x{number}", "client", 1, 1 << 20))
        tree.step("b2", Received(f"x{number}", Consume("orders", GROUP, 1)))
        assert held.edition == edition + min(number + 1, CHANGES_TOLD)
    tree.step("b2", TimerFired(Tick()))
    assert held.edition == edition + CHANGES_TOLD + 1, "the last state is told in any case"


def test_the_next_home_knows_who_consumed_and_what_is_done() -> None:
    tree = make_home()
    tree.consume("w1", "b2", "orders", GROUP)
    settle(tree)
    tree.crash("b2")
    settle(tree)
    [home] = [broker for broker in tree.brokers.values() if "orders" in broker.parts.durables.consumers.held]
    assert len(home.parts.client_book.durables.done_of("orders")[0]) == 2000
    publish(tree, 6)
    settle(tree)
    assert sorted(payloads(tree, "w0") + payloads(tree, "w1")) == list(range(6))


def test_a_broker_completes_a_partial_state_and_passes_it_on_as_it_came() -> None:
    broker = broker_with(Received("n", DurableKnown(WHOLE)), Received("m", DurableHeard("d", 1, 1)))
    effects = broker.step(Received("n", DurableKnown(PARTIAL)), 0)
    assert Send("m", DurableKnown(PARTIAL)) in effects
    book = broker.parts.client_book.durables
    assert book.whole(book.states["d"]) == msgspec.structs.replace(WHOLE, edition=2, consumers=("k",))


@pytest.mark.parametrize("change", [{"term": 2}, {"home": Life("far", 2)}], ids=["term", "home"])
def test_a_partial_state_of_which_the_rest_is_unknown_is_not_kept_and_asked_for(change: dict[str, object]) -> None:
    broker = broker_with(Received("n", DurableKnown(WHOLE)), Received("m", DurableHeard("d", 1, 1)))
    later = msgspec.structs.replace(PARTIAL, **change)
    effects = broker.step(Received("n", DurableKnown(later)), 0)
    assert broker.parts.client_book.durables.states["d"].edition == 1
    sent = [effect.message for effect in effects if isinstance(effect, Send) and effect.peer == "n"]
    assert DurableKnown(WHOLE) in sent, "who hears what is old tells better"
    whole = msgspec.structs.replace(WHOLE, edition=2, **change)
    broker.step(Received("n", DurableKnown(whole)), 0)
    assert broker.parts.client_book.durables.states["d"].age == whole.age


def test_a_partial_state_of_an_unknown_subscription_is_answered() -> None:
    broker = broker_with()
    effects = broker.step(Received("n", DurableKnown(PARTIAL)), 0)
    assert Send("n", DurableHeard("d", 1, 2)) in effects and not broker.parts.client_book.durables.states


def test_records_of_partial_states_are_completed_when_they_are_read() -> None:
    former = Former([encode(KeptDurable(WHOLE)), encode(KeptDurable(PARTIAL))])
    assert former.durables == [msgspec.structs.replace(WHOLE, edition=2, consumers=("k",))]


class Walked(dict[str, DurableState]):
    """Fails when somebody looks at all of it."""

    def values(self) -> NoReturn:
        pytest.fail("all durable subscriptions are looked at for one")


def test_a_subscription_that_spills_costs_the_same_however_many_there_are() -> None:
    """Each one that began, changed or ended was followed by a look at all 100,000."""
    broker = broker_with()
    book, spilling = broker.parts.client_book.durables, broker.parts.spilling
    book.states = Walked(book.states)
    spills = msgspec.structs.replace(WHOLE, terms=Terms("t/#", None, True, WhenFull.SPILL), done=(), base=())
    for number in range(3):
        book.learn(msgspec.structs.replace(spills, subscription=f"d{number}"), "n")
    assert dict(spilling.filters) == {"t/#": 3}
    for number in range(3):
        book.learn(msgspec.structs.replace(spills, subscription=f"d{number}", edition=2, over=True), "n")
    assert not spilling.filters


def test_what_was_in_the_log_before_a_subscription_that_spills_is_looked_at_in_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spilling_module, "LOOKED_AT_ONCE", 2)
    broker = broker_with(*[Received("n", Forward(bundle(number, topic="t"), 1)) for number in range(1, 6)])
    waiting = len(broker.parts.log.entries)
    assert waiting == 5
    spills = msgspec.structs.replace(WHOLE, terms=Terms("t", None, True, WhenFull.SPILL), done=(), base=())
    looked_at = []
    broker.step(Received("n", DurableKnown(spills)), 0)
    while broker.parts.spilling.unlooked:
        looked_at.append(len(broker.parts.spilling.candidates))
        broker.step(Received("n", Ping(1, 0)), 0)
    assert [*looked_at, len(broker.parts.spilling.candidates)] == [2, 4, 5]
