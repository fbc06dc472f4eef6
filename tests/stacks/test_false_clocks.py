"""Clocks that lie: nobody stops for a stamp that no clock can have reached, and nobody is blamed for passing it on.

Attack 1 of issue 27: one client said `Attend` with a clock of 2^62 - 3. The clock went through the tree, the next
stamps were beyond 2^62, brokers refused each other for them, and journals kept it over restarts.
"""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from resprout.core.bundle import to_record
from resprout.core.contract import Close, Effect, LinkUp, Persist, Received, Recovered, Send
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import STAMP_MAX
from resprout.edge.messages import Attend, Delivery, Publish, Subscribe, Turned
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.order.clock import LEAD
from resprout.order.messages import AlreadyOrdered, OrderedTotal, TotalCopy
from resprout.overlay.messages import Life
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.former import Former, KeptRoster, Roster, bundle_record, encode
from resprout.stacks.resprout.messages import ParcelRows
from resprout.stacks.stack import BrokerSeat
from tests.stacks.test_hostile import broker_with, bundle, busy_star, check_the_others_go_on, cut_off
from tests.stacks.tree import Tree

FALSE = 1 << 61
IN_TREE = (
    "Forward.bundle.stamp", "Submit.bundle.stamp", "Lock.bundle.stamp", "Closed.stamp", "KnownLock.bundle.stamp",
    "KnownLock.stamp", "KnownLock.told", "KnownLock.heard", "Welcome.clock", "Attach.clock", "Grant.clock",
    "Item.bundle.stamp",
)  # fmt: skip
TAMPERED = (
    *IN_TREE, "TotalCopy.bundle.stamp", "OrderedTotal.bundle.stamp", "AlreadyOrdered.stamp", "Republished.bundle.stamp",
    "Recollected.bundle.stamp",
)  # fmt: skip
"""All stamps that brokers tell each other."""


def clocks(tree: Tree) -> list[int]:
    return [broker.parts.clock.now for broker in tree.brokers.values()]


# -- a client ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", [4 * LEAD, FALSE, STAMP_MAX - 3, STAMP_MAX])
def test_a_client_with_a_false_clock_is_cut_off_and_no_clock_moves(clock: int) -> None:
    tree = busy_star()
    before = clocks(tree)
    broker = tree.brokers["b0"]
    broker.step(LinkUp("liar", "client", 1, 10_000), tree.now_us)
    (close,) = [
        effect for effect in broker.step(Received("liar", Attend(clock)), tree.now_us) if isinstance(effect, Close)
    ]
    assert close.peer == "liar" and f"the stamp {clock} is ahead of all clocks" in close.reason
    assert clocks(tree) == before
    check_the_others_go_on(tree)
    assert tree.incarnations == {"b0": 1, "b1": 1, "b2": 1}


def test_the_highest_clock_that_a_client_may_claim_stops_nobody() -> None:
    tree = busy_star()
    broker = tree.brokers["b0"]
    broker.step(LinkUp("liar", "client", 1, 10_000), tree.now_us)
    for clock in (LEAD, 3 * LEAD):
        broker.step(LinkUp(f"liar{clock}", "client", 1, 10_000), tree.now_us)
        assert not any(
            isinstance(effect, Close) for effect in broker.step(Received(f"liar{clock}", Attend(clock)), tree.now_us)
        )
    assert broker.parts.clock.now == tree.now_us + LEAD
    check_the_others_go_on(tree)
    check_the_others_go_on(tree)
    assert max(clocks(tree)) < tree.now_us + LEAD + 100 and cut_off(tree) == []
    assert tree.incarnations == {"b0": 1, "b1": 1, "b2": 1}


# -- a member ----------------------------------------------------------------------------------------------------------


LIARS = {"Lock": ("b0",), "Welcome": ("b0",), "Grant": ("b0",), "KnownLock": ("b0", "b2")}
"""Brokers that send these, by kind; b2 sends all others. The root, b0, leads the repair."""


class Tampering(Tree):
    """One broker lies: a stamp of all its messages of one kind is false."""

    def __init__(self, name: str, liar: str, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._kind, _, self._path = name.partition(".")
        self.liar = liar
        self.tampered = 0

    def perform(self, name: str, effects: Sequence[Effect]) -> None:
        super().perform(name, [self._changed(effect) for effect in effects] if name == self.liar else effects)

    def _changed(self, effect: Effect) -> Effect:
        if not isinstance(effect, Send):
            return effect
        if isinstance(effect.message, ParcelRows):
            return Send(effect.peer, ParcelRows(tuple(map(self._tampered, effect.message.rows))))
        return Send(effect.peer, self._tampered(effect.message))

    def _tampered(self, message: Any) -> Any:
        if type(message).__name__ != self._kind:
            return message
        if self._path in ("bundle.stamp", "stamp") and hasattr(message, "bundle"):
            changes: dict[str, Any] = {"bundle": message.bundle.stamped(FALSE)}
            if self._path == "stamp" or getattr(message, "stamp", -1) >= 0:
                changes["stamp"] = FALSE
        else:
            changes = {self._path: FALSE}
        self.tampered += 1
        return msgspec.structs.replace(message, **changes)


PARENTS: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1", "b3": "b1", "b4": "b0"}
HOMES = {"p": "b0", "q": "b2", "r": "b3", "s": "b4"}


def run_with(name: str, liar: str, seed: int) -> Tampering:
    """Publications of all kinds while a broker dies and returns."""
    tree = Tampering(name, liar, PARENTS, HOMES, seed=seed, options=ResproutOptions(faults_tolerated=1))
    tree.start()
    for client in HOMES:
        tree.ask(client, SubscribeRequest("t"))
    tree.run()
    rng = random.Random(seed)
    published: dict[int, str] = {}

    def publish(times: int) -> None:
        for _ in range(times):
            for client in HOMES:
                published[count := len(published) + 1] = client
                guarantee = rng.choice((Guarantee.CAUSAL, Guarantee.TOTAL))
                tree.ask(client, PublishRequest("t", b"%d" % count, guarantee=guarantee))
            for _ in range(rng.randint(0, 25)):
                tree.one()

    publish(3)
    tree.crash("b1")
    publish(3)
    tree.run()
    publish(2)
    tree.recover("b1")
    publish(3)
    tree.run()
    publish(1)
    tree.run()
    expected = {b"%d" % number for number, client in published.items() if HOMES[client] != tree.liar}
    for client, home in HOMES.items():
        if home != tree.liar:
            got = [message.payload for message in tree.delivered[client]]
            assert expected <= set(got) and len(got) == len(set(got))
    return tree


@pytest.mark.parametrize(
    ("name", "liar"), [(name, liar) for name in IN_TREE for liar in LIARS.get(name.partition(".")[0], ("b2",))]
)
def test_stamps_that_no_clock_can_have_reached_harm_nobody_wherever_brokers_tell_them(name: str, liar: str) -> None:
    """Whatever a member says: clocks stay, no honest broker cuts off another, and everything of theirs is delivered."""
    for seed in range(12):
        tree = run_with(name, liar, seed)
        assert max(clocks(tree)) < 1_000_000
        honest = {"b0": 1, "b1": 2, "b2": 1, "b3": 1, "b4": 1}
        del honest[tree.liar]
        assert {broker: life for broker, life in tree.incarnations.items() if broker != tree.liar} == honest
        for who, whom, reason in tree.closed:
            assert who not in honest or whom not in honest or reason == "b1 was declared dead"
        if tree.tampered:
            return
    raise AssertionError(f"no {name} was sent in any run")


def test_a_copy_of_a_total_is_kept_with_a_stamp_of_this_broker() -> None:
    broker = broker_with()
    total = bundle(publisher="x", guarantee=Guarantee.TOTAL, stamp=FALSE)
    assert not any(isinstance(effect, Close) for effect in broker.step(Received("n", TotalCopy(1, 1, total)), 0))
    (entry,) = broker.parts.log.entries.values()
    assert entry.stamp < 100 and broker.parts.clock.now < 100
    assert broker.status().refused == {"it passed on a stamp that no clock can have reached": 1}


def test_a_total_that_the_root_publishes_is_delivered_with_a_stamp_of_this_broker() -> None:
    tree = busy_star()
    total = bundle(publisher="x", guarantee=Guarantee.TOTAL, stamp=FALSE)
    tree.forge("b0", "b1", OrderedTotal(0, 900, total, 1))
    tree.run()
    assert max(clocks(tree)) < 1_000_000 and cut_off(tree) == []
    check_the_others_go_on(tree)


def test_the_clock_of_a_parent_that_knows_a_total_is_limited_like_any_other() -> None:
    tree = busy_star()
    totals = tree.brokers["b1"].parts.totals
    total = bundle(publisher="x", guarantee=Guarantee.TOTAL)
    totals.submissions.keep(("x", 1, 1), total)
    tree.forge("b0", "b1", AlreadyOrdered("x", 1, 1, FALSE))
    tree.run()
    assert totals.pending == 0, "it has heard it"
    assert max(clocks(tree)) < 1_000_000 and cut_off(tree) == []
    check_the_others_go_on(tree)


# -- a journal ---------------------------------------------------------------------------------------------------------


def recovered(records: Sequence[bytes]) -> tuple[ResproutBroker, Sequence[Effect]]:
    broker = ResproutBroker(BrokerSeat("b", 2, None), ResproutOptions(durable="journal"), random.Random(1))
    broker.start(0)
    return broker, broker.step(Recovered(tuple(records)), 0)


def test_a_false_clock_in_a_journal_heals_with_the_restart() -> None:
    """A broker that wrote stamps up to 2^62 - 3 comes back, hands up what it had (`Recollected`), publishes it once
    more in the same order (`Republished`), takes new publications, and gives all of them stamps that others take."""
    roster = Roster("net", Life("b", 1), 0, ())
    bundles = [bundle(number, publisher="p", stamp=STAMP_MAX - 6 + number) for number in (1, 2, 3)]
    records = [encode(KeptRoster(roster)), *[bundle_record(each, -1, ("c",), ()) for each in bundles]]

    broker, effects = recovered(records)
    entries = [*Former([effect.record for effect in effects if isinstance(effect, Persist)]).entries.values()]
    assert [(entry.bundle.first, entry.bundle.stamp) for entry in entries] == [(1, 2), (2, 3), (3, 4)]
    assert broker.parts.clock.now == 4 and not broker.life.reviving
    broker.step(LinkUp("d", "client", 1, 1 << 20), 0)
    broker.step(Received("d", Attend(0)), 0)
    broker.step(Received("d", Subscribe(1, "t", None)), 0)
    told: list[Effect] = []
    for number in range(1, 6):
        told += broker.step(Received("d", Publish(bundle(number, publisher="d"))), 0)
    given = [e.message for e in told if isinstance(e, Send) and isinstance(e.message, Delivery)]
    assert [each.bundle.first for each in given if each.bundle.publisher == "d"] == [1, 2, 3, 4, 5]
    assert max(each.bundle.stamp for each in given) < 100
    assert any(isinstance(e, Send) and isinstance(e.message, Turned) for e in told)


def test_what_a_broker_kept_until_it_was_safe_is_published_again_below_the_limit() -> None:
    seat = BrokerSeat("b", 2, None, epoch_us=1_800_000_000_000_000)
    broker = ResproutBroker(seat, ResproutOptions(durable=True), random.Random(1))
    broker.start(0)
    broker.step(Recovered((to_record(bundle(publisher="p", stamp=STAMP_MAX - 3)),)), 0)
    assert not broker.parts.log.entries  # a lone broker shows it at once
    assert broker.parts.clock.now == seat.epoch_us + LEAD + 1
