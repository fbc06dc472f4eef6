"""The bank: what its ledgers do, and that replicas which are given the same order agree."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.bundle import pairs_of
from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_attributes, check_keys
from resprout.core.message import Message
from resprout.edge.requests import PublishRequest, SubscriptionConfirmed
from resprout.scenario.app import Applied, AppWish
from resprout.scenario.app_runner import AppMaker, held_topics
from resprout.scenario.model import BankOptions, BrokerSpec, ClientSpec, Mix, Scenario, SubscriptionSpec, WorkloadSpec
from resprout.scenario.workloads import BankLedger
from tests.scenario.perfect import PerfectNetwork


def order(op: str, amount: Any, *keys: str, topic: str = "pt", **more: Any) -> Message:
    guarantee = Guarantee.CAUSAL if op == "deposit" else Guarantee.TOTAL
    return Message("c0", 1, 0, topic, tuple(sorted(keys)), guarantee, {"op": op, "amount": amount} | more, b"", 0)


def bank(
    *subscriptions: tuple[SubscriptionSpec, ...],
    mix: Mix = Mix(0.1, 0.1, 0.2, 0.6),  # noqa: B008, values are immutable
    keys: int = 5,
    operations: int = 150,
    start_us: int = 2_000_000,
) -> Scenario:
    clients = tuple(ClientSpec(f"c{i}", "b0", subscriptions=rows) for i, rows in enumerate(subscriptions))
    workload = WorkloadSpec(
        "bank", tuple(c.name for c in clients), ("pt", "fr"), keys, operations, mix, 10_000, 8, start_us, 0,
        BankOptions(initial=1_000, amount_max=800),
    )  # fmt: skip
    return Scenario("bank", (BrokerSpec("b0"),), clients=clients, workloads=(workload,))


BOTH = (SubscriptionSpec("#"),)


def outcome(applied: Applied | None) -> tuple[str, dict[str, int]]:
    assert applied is not None
    return applied.outcome, dict(applied.balances)


def test_a_deposit_credits_and_a_withdrawal_debits() -> None:
    ledger = BankLedger(["pt"], 100)
    assert outcome(ledger.apply(order("deposit", 50, "acc-1"))) == ("ok", {"pt|acc-1": 150})
    assert outcome(ledger.apply(order("withdraw", 150, "acc-1"))) == ("ok", {"pt|acc-1": 0})
    assert ledger.balance("pt", "acc-2") == 100


def test_what_would_leave_less_than_nothing_is_refused_and_changes_nothing() -> None:
    ledger = BankLedger(["pt"], 100)
    assert outcome(ledger.apply(order("withdraw", 101, "acc-1"))) == ("refused", {"pt|acc-1": 100})
    refused = ledger.apply(order("transfer", 101, "acc-1", "acc-2", to="acc-2"))
    assert outcome(refused) == ("refused", {"pt|acc-1": 100, "pt|acc-2": 100})


def test_a_transfer_moves_money_whichever_key_comes_first() -> None:
    ledger = BankLedger(["pt", "fr"], 100)
    assert outcome(ledger.apply(order("transfer", 30, "acc-1", "acc-2", to="acc-1"))) == (
        "ok", {"pt|acc-1": 130, "pt|acc-2": 70},
    )  # fmt: skip
    assert outcome(ledger.apply(order("transfer", 30, "acc-1", "fr#acc-1", to="fr#acc-1"))) == (
        "ok", {"fr|acc-1": 130, "pt|acc-1": 100},
    )  # fmt: skip


def test_interest_is_rounded_down() -> None:
    assert outcome(BankLedger(["pt"], 199).apply(order("interest", 500, "acc-1"))) == ("ok", {"pt|acc-1": 199 + 9})


@pytest.mark.parametrize(
    "message",
    [
        order("deposit", 50, "acc-1", topic="fr"),
        order("transfer", 50, "acc-1", "fr#acc-1", to="fr#acc-1"),
        order("transfer", 50, "acc-1", "acc-2", to="acc-3"),
        order("transfer", 50, "acc-1", "acc-2"),
        order("transfer", 50, "acc-1", to="acc-1"),
        order("deposit", -50, "acc-1"),
        order("deposit", 0, "acc-1"),
        order("deposit", True, "acc-1"),
        order("deposit", "50", "acc-1"),
        order("deposit", 50),
        order("withdraw", 50, "acc-1", "acc-2"),
        order("steal", 50, "acc-1"),
        Message("c0", 1, 0, "pt", ("acc-1",), Guarantee.EVENTUAL, {"op": "balance"}, b"", 0),
    ],
    ids=repr,
)
def test_what_is_no_order_for_this_replica_changes_nothing(message: Message) -> None:
    ledger = BankLedger(["pt"], 100)
    assert ledger.apply(message) is None
    assert [ledger.balance("pt", f"acc-{i}") for i in range(4)] == [100] * 4


def test_replicas_that_are_given_the_same_order_agree_on_every_outcome() -> None:
    network = PerfectNetwork(bank(BOTH, BOTH, BOTH))
    network.run()
    rows = [[(a.message.id, a.outcome, a.balances) for a in network.applied(name)] for name in network.apps]
    assert rows[0] == rows[1] == rows[2]
    assert {applied.outcome for applied in network.applied("c0")} == {"ok", "refused"}


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10_000))
def test_replicas_agree_at_the_end_when_only_what_commutes_is_swapped(seed: int) -> None:
    """Deposits between two total operations may come in any order: what the guarantees promise, and no more."""
    network = PerfectNetwork(bank(BOTH, operations=60))
    network.run()
    rng = random.Random(seed)
    straight, swapped = BankLedger(["pt", "fr"], 1_000), BankLedger(["pt", "fr"], 1_000)
    weak: list[Message] = []
    for message in [*network.deliveries["c0"], None]:
        if message is not None:
            straight.apply(message)
        if message is not None and message.guarantee is not Guarantee.TOTAL:
            weak.append(message)
            continue
        rng.shuffle(weak)
        for early in weak:
            swapped.apply(early)
        weak.clear()
        if message is not None:
            swapped.apply(message)
    assert balances(straight) == balances(swapped)


def balances(ledger: BankLedger) -> dict[tuple[str, str], int]:
    return {(topic, f"acc-{i}"): ledger.balance(topic, f"acc-{i}") for topic in ("pt", "fr") for i in range(5)}


def test_money_is_neither_made_nor_lost_but_by_deposits_withdrawals_and_interest() -> None:
    network = PerfectNetwork(bank(BOTH, BOTH, operations=300))
    network.run()
    ledger = BankLedger(["pt", "fr"], 1_000)
    for message in network.deliveries["c0"]:
        before = balances(ledger)
        applied = ledger.apply(message)
        created = sum(balances(ledger).values()) - sum(before.values())
        if applied is None or applied.outcome == "refused" or message.attributes["op"] == "transfer":
            assert created == 0
        elif message.attributes["op"] == "interest":
            (account,) = pairs_of(message.topic, message.keys)
            assert created == before[account] * int(message.attributes["amount"]) // 10_000
        else:
            assert created == int(message.attributes["amount"]) * (1 if message.attributes["op"] == "deposit" else -1)
        assert min(balances(ledger).values()) >= 0


def test_the_guarantee_follows_from_what_the_operation_needs() -> None:
    network = PerfectNetwork(bank(BOTH, operations=300))
    network.run()
    seen: dict[Guarantee, set[object]] = {}
    for _, request in network.published():
        seen.setdefault(request.guarantee, set()).add(request.attributes["op"])
        assert request.keys == check_keys(request.keys)
        check_attributes(request.attributes)
    assert seen == {
        Guarantee.EVENTUAL: {"balance"},
        Guarantee.FIFO: {"deposit"},
        Guarantee.CAUSAL: {"deposit"},
        Guarantee.TOTAL: {"withdraw", "transfer", "interest"},
    }


def transfers(scenario: Scenario) -> set[bool]:
    """Whether transfers within a bank, or to another, are made."""
    network = PerfectNetwork(scenario)
    network.run()
    return {"#" in str(r.attributes["to"]) for _, r in network.published() if r.attributes["op"] == "transfer"}


def test_money_goes_to_another_bank_only_where_every_replica_holds_both() -> None:
    assert transfers(bank(BOTH, BOTH)) == {False, True}
    assert transfers(bank(BOTH, (SubscriptionSpec("fr"),))) == {False}
    assert transfers(bank(BOTH, BOTH, keys=1)) == {True}
    assert transfers(bank(BOTH, (SubscriptionSpec("fr"),), keys=1)) == set()


def test_a_replica_holds_the_banks_of_which_it_receives_everything() -> None:
    client = ClientSpec("c", "b", subscriptions=(SubscriptionSpec("fr"), SubscriptionSpec("#", "amount > 5")))
    assert held_topics(client, ["pt", "fr"]) == ("fr",)


def rows_of(scenario: Scenario, life: int, confirmed_us: int) -> list[AppWish]:
    app = AppMaker(scenario).make("c0", life)
    app.start(0)
    app.told(SubscriptionConfirmed("#", None), confirmed_us)
    return list(app.delivered(order("deposit", 5, "acc-1"), confirmed_us + 1))


def test_only_who_has_seen_everything_keeps_books() -> None:
    scenario = bank(BOTH)
    assert len(rows_of(scenario, 0, 1_000_000)) == 1
    assert rows_of(scenario, 0, 2_000_001) == [], "confirmed after the bank opened"
    assert rows_of(scenario, 1, 1_000_000) == [], "lost its memory"


def test_the_trace_row_says_the_outcome_and_the_balances_as_text() -> None:
    applied = BankLedger(["pt"], 100).apply(order("withdraw", 30, "acc-1"))
    assert applied is not None
    assert applied.attributes == {"outcome": "ok", "pt|acc-1": "70"}


def test_tellers_work_at_their_interval_from_the_opening_on() -> None:
    network = PerfectNetwork(bank(BOTH, BOTH, operations=20))
    network.run()
    for name in network.apps:
        times = [time_us for time_us, _ in network.published(name)]
        assert len(times) == 20
        assert 2_000_000 <= times[0] <= 2_010_000
        assert {later - earlier for earlier, later in itertools.pairwise(times)} == {10_000}
    assert all(isinstance(request, PublishRequest) and len(request.payload) == 8 for _, request in network.published())
