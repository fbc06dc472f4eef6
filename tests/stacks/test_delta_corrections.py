"""Where the report's pseudocode fails: one test for each correction, named as in docs/stacks/delta.md. Each has its
counterpart in which the fix is switched off, and shows what happens then."""

from typing import Any

import pytest

from resprout.core.contract import Received, Retire
from resprout.overlay.messages import Life
from resprout.stacks.shell import Step
from resprout_lab.delta import forwarding, subscriptions
from resprout_lab.delta.broker import DeltaBroker
from resprout_lab.delta.forwarding import NewestSeen, ReliableForwarding, Transit
from resprout_lab.delta.messages import (
    MeetRequest,
    RoutedPublication,
    RoutedUnsubscription,
    SubscriptionId,
    SyncRequest,
    SyncSnapshot,
    VisitedNode,
)  # fmt: skip
from resprout_lab.delta.publishing import PublishOperation
from resprout_lab.delta.recovery import RecoveringTree
from resprout_lab.delta.subscriptions import KnownSubscriptions, source_at
from resprout_lab.delta.tree import KnownTree
from tests.stacks.delta_net import DeltaNet, chain, crash, reading, recover, row, rules, strike

CALM = row(operations=20)
RETURN = strike(row(operations=40), crash("b1"), recover("b1"))


# -- D1 ----------------------------------------------------------------------------------------------------------------


def test_delta_d1_a_copy_is_a_duplicate_when_an_entry_is_not_newer_and_nothing_else_is() -> None:
    seen = NewestSeen("n", 1, 1)
    seen.note(passed("b", 5))
    assert [seen.is_duplicate(passed("b", number)) for number in (4, 5, 6)] == [True, True, False]
    assert not seen.is_duplicate(passed("c", 4)), "of this one nothing was seen"
    assert not rules(CALM)


def passed(name: str, number: int) -> RoutedUnsubscription:
    """What this broker has given that number."""
    return RoutedUnsubscription(1, 1, (VisitedNode(name, 1, number),), None, SubscriptionId("x", 1, number))


def test_delta_d1_off_everything_whose_number_differs_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(self: NewestSeen, node: VisitedNode) -> bool:
        known = self._nodes.get((node.name, node.life))
        return bool(node.number) and known is not None and known != node.number

    monkeypatch.setattr(NewestSeen, "_has", differs)
    assert "lost" in rules(CALM)


# -- D2 ----------------------------------------------------------------------------------------------------------------


def test_delta_d2_what_a_restarted_broker_passes_on_is_new() -> None:
    assert not rules(RETURN)


def test_delta_d2_off_what_a_restarted_broker_passes_on_looks_old(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_lives(self: NewestSeen, node: VisitedNode) -> bool:
        return 0 < node.number <= max([no for (name, _), no in self._nodes.items() if name == node.name], default=0)

    monkeypatch.setattr(NewestSeen, "_has", without_lives)
    assert "lost" in rules(RETURN)


# -- D3 ----------------------------------------------------------------------------------------------------------------


def test_delta_d3_whoever_is_in_the_recipient_set_is_shown_it() -> None:
    net = reading("b0", "b1", "b2")
    net.publish("p")
    net.settle()
    assert all(net.read(f"c{name}") == [("p", 1)] for name in ("b0", "b1", "b2"))


def test_delta_d3_off_a_broker_that_is_no_connection_of_its_own_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    show = PublishOperation._show

    def if_out(self: PublishOperation, item: Any, barriers: Any) -> None:
        if self._parts.seat.name in self._parts.forwarding.links:
            show(self, item, barriers)

    monkeypatch.setattr(PublishOperation, "_show", if_out)
    net = reading("b0", "b1", "b2")
    net.publish("p")
    net.settle()
    assert not any(net.read(f"c{name}") for name in ("b0", "b1", "b2"))


# -- D4 ----------------------------------------------------------------------------------------------------------------


def test_delta_d4_nothing_goes_back_where_it_came_from() -> None:
    net = reading("b0", "b1")
    net.publish("p")
    net.settle()
    assert not net.between("b1", "b0", RoutedPublication) and net.safe("p") == 1


def test_delta_d4_off_two_brokers_send_each_other_the_same_and_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    net = reading("b0", "b1")
    monkeypatch.setattr(forwarding, "onward", lambda view, sender, nodes: [name for name in nodes if name != view.name])
    monkeypatch.setattr(ReliableForwarding, "check_done", wait_for_all)
    net.publish("p")
    net.settle()
    assert net.between("b1", "b0", RoutedPublication) and net.safe("p") == 0


def wait_for_all(self: ReliableForwarding, transit: Transit) -> None:
    """Whoever sent it is told when all have confirmed it, as it is printed."""
    if not transit.out and not transit.waiting:
        self._finish(transit)


# -- D5 ----------------------------------------------------------------------------------------------------------------


def test_delta_d5_a_source_is_the_broker_delta_plus_one_hops_from_the_receiver() -> None:
    way = ["n", "x", "y", "source"]
    assert [source_at(way, 1, delta) for delta in (0, 1, 2, 3)] == ["n", "x", "y", "source"]
    assert [source_at(way, 2, delta) for delta in (1, 2, 3, 4)] == ["n", "x", "y", "source"]
    assert not rules(CALM)


def test_delta_d5_off_with_the_printed_sign_nobody_far_away_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(path: tuple[str, ...], distance: int, delta: int) -> str:
        return path[-1] if distance + len(path) - 1 <= delta + 1 else path[distance - (delta + 1)]

    monkeypatch.setattr(subscriptions, "source_at", printed)
    assert rules(CALM) & {"lost", "stuck"}


# -- D6 ----------------------------------------------------------------------------------------------------------------


def test_delta_d6_a_broker_that_says_it_needs_no_guidance_takes_plain_messages() -> None:
    net = returning()
    assert net.read("cb2") == [("p", 1)] and net.safe("p") == 1


def test_delta_d6_off_what_is_sent_between_the_word_and_the_deed_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    hear = DeltaBroker._hear

    def discard(self: DeltaBroker, peer: Any, message: Any) -> None:
        link = self._forwarding.links[peer.name]
        if not self._is_operational and message.to is None and isinstance(message, RoutedPublication):
            link.received += 1
        else:
            hear(self, peer, message)

    monkeypatch.setattr(DeltaBroker, "_hear", discard)
    net = returning()
    assert not net.read("cb2") and net.safe("p") == 0


def returning() -> DeltaNet:
    """A publication meets `b1` when it has said that it needs no guidance, and is not operational yet."""
    net = reading("b0", "b1", "b2")
    net.crash("b1")
    net.settle()
    net.stop("b2", "b1")
    net.start("b1")
    net.settle()
    del net.stopped["b2", "b1"]
    net.settle(until=lambda: net.brokers["b1"]._tree.is_synced)
    net.stop("b2", "b1")
    net.settle()
    assert not net.brokers["b1"]._is_operational
    net.publish("p")
    net.settle()
    net.stopped.clear()
    net.settle()
    return net


# -- D7 ----------------------------------------------------------------------------------------------------------------


def test_delta_d7_a_broker_tells_whoever_begins_its_own_status() -> None:
    assert [told.is_operational for told in told_in_a_chain()] == [True, False], "b0 first, then b2, which recovers"


def test_delta_d7_off_with_the_status_of_the_other_one_nobody_is_operational(monkeypatch: pytest.MonkeyPatch) -> None:
    tell = RecoveringTree._tell

    def printed(self: RecoveringTree, name: str, message: SyncRequest) -> None:
        is_synced, self.is_synced = self.is_synced, False  # that of the one that asks, which recovers
        tell(self, name, message)
        self.is_synced = is_synced

    monkeypatch.setattr(RecoveringTree, "_tell", printed)
    assert [told.is_operational for told in told_in_a_chain()] == [False, False]


def told_in_a_chain() -> list[SyncSnapshot]:
    net = reading("b0", "b1", "b2", "b3", delta=2)
    net.crash("b1", "b2")
    net.settle()
    net.said.clear()
    net.stop("b0", "b1")
    net.start("b1")
    net.start("b2")
    net.settle()
    net.stopped.clear()
    net.settle()
    first, second = net.between("b0", "b1", SyncSnapshot), net.between("b2", "b1", SyncSnapshot)
    return [*first, *second]


def back() -> DeltaNet:
    """`b1` is, in its second life; `b0` and `b2` still know each other."""
    net = reading("b0", "b1", "b2")
    net.crash("b1")
    net.settle()
    net.start("b1")
    net.settle()
    net.closed.clear()
    return net


def stale(life: int = 1) -> DeltaNet:
    """Somebody says that a life of `b1` is dead."""
    net = back()
    net.step("b0", Received("b2", MeetRequest((Life("b1", life),), ())))
    return net


def test_delta_d7_a_stale_word_about_a_death_does_not_make_anybody_pass_over_a_later_life() -> None:
    assert not stale().closed


def test_delta_d7_off_without_lives_a_living_broker_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnownTree, "life", lambda self, name: 1)
    assert ("b0", "b1", "it is gone") in stale().closed


def test_delta_d7_a_life_that_was_passed_over_and_lives_ends_and_begins_anew() -> None:
    net = stale(life=2)
    assert ("b0", "b1", "it is gone") in net.closed
    (told,) = [message for *names, message in net.on_the_way if names == ["b0", "b1"]]
    assert told == MeetRequest((Life("b1", 2),), ()), "it is told when it calls"
    effects = net.brokers["b1"].step(Received("b0", told), 0)
    assert [effect.again for effect in effects if isinstance(effect, Retire)] == [True]


def test_delta_d7_off_a_life_that_was_passed_over_and_goes_on_misses_what_is_called_safe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Step, "end_life", lambda self, retire: None)
    net = back()
    net.attach("cb1", "b1")
    net.subscribe("cb1")
    net.settle()
    net.stop("b0", "b1")
    net.stop("b1", "b0")
    net.step("b0", Received("b2", MeetRequest((Life("b1", 2),), ())))  # somebody was wrong
    net.publish("p")
    net.settle()
    net.stopped.clear()
    net.settle()
    assert net.safe("p") == 1 and net.read("cb2") == [("p", 1)] and not net.read("cb1")


def shared() -> DeltaNet:
    """Two brokers want the same, and one of them does not any more."""
    net = reading("b0", "b1", "b2")
    net.unsubscribe("cb1")
    net.settle()
    net.publish("p")
    net.settle()
    return net


def test_delta_d7_one_of_two_equal_subscriptions_can_be_withdrawn() -> None:
    net = shared()
    assert net.read("cb2") == [("p", 1)] and not net.read("cb1")


def test_delta_d7_off_a_set_of_predicates_forgets_both(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = KnownSubscriptions.remove

    def by_predicate(self: KnownSubscriptions, id: Any) -> None:
        gone = [one.filter for one in self if one.id == id]
        for one in [one.id for one in self if one.filter in gone]:
            remove(self, one)

    monkeypatch.setattr(KnownSubscriptions, "remove", by_predicate)
    assert not shared().read("cb2")


def half_joined() -> DeltaNet:
    """`b1` is gone before it could say that it is in the tree."""
    net = DeltaNet(chain("b0"))
    net.stop("b0", "b1")
    net.add("b1", "b0")
    net.settle()
    net.crash("b1")
    net.stopped.clear()
    net.settle()
    return net


def test_delta_d7_a_newcomer_that_dies_on_the_way_leaves_no_link_behind() -> None:
    net = half_joined()
    assert net.brokers["b0"]._tree.view.own.neighbours == ()


def test_delta_d7_off_a_newcomer_that_dies_on_the_way_stays_in_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveringTree, "pass_over", KnownTree.pass_over)
    assert half_joined().brokers["b0"]._tree.view.own.neighbours == ("b1",)
