"""A total that cannot be delivered says why, and everything else goes on meanwhile."""

import pytest

from resprout.edge.requests import ReceiptTurned, ReceiptWaits
from resprout.scenario.model import FaultKind, FaultSpec
from resprout.trace.schema import Row
from tests.stacks.asking import News, Told, ask, two_kinds
from tests.stacks.stage import FORK, check_sound, publications, receipts, scenario

SECOND = 1_000_000
LEASE_US = 3 * SECOND
SIX: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b1", "b4": "b1", "b5": "b2"}
FAR = ("b1", "b3", "b4")
CUT_US, HEAL_US = 1 * SECOND, 30 * SECOND


@pytest.fixture(scope="module")
def parted() -> Told:
    """Three of six brokers are cut off for a while, which is more than the one that may crash."""
    faults = [FaultSpec(CUT_US, FaultKind.PARTITION, nodes=FAR), FaultSpec(HEAL_US, FaultKind.HEAL)]
    return ask(two_kinds(SIX, list(SIX)), faults, ())


def reasons(played: Told, client: str) -> list[str]:
    return [news.body.reason for news in played.news(ReceiptWaits, client)]


def numbered(played: Told, client: str) -> list[tuple[int, str]]:
    return [(news.body.seq, news.body.reason) for news in played.news(ReceiptWaits, client)]


def meanwhile(played: Told, client: str) -> list[Row]:
    """What it was given while the network was parted, from its own side."""
    return [
        row
        for row in played.rows
        if row.kind == "deliver" and row.node == client and CUT_US + LEASE_US < row.time_us < HEAL_US
    ]


def test_on_both_sides_of_a_partition_a_publisher_is_told_what_its_total_waits_for(parted: Told) -> None:
    assert reasons(parted, "t0") == [
        "waits for b1, which is not heard",
        "waits for b1, b3 and b4, which are not heard",
    ]
    assert reasons(parted, "t1")[0] == "waits for b0, which is not heard"
    for name in ("t0", "t1", "t2", "t3", "t4", "t5"):
        first = parted.news(ReceiptWaits, name)[0]
        assert CUT_US + LEASE_US < first.time_us < CUT_US + 2 * LEASE_US, "after a lease, not at once"


def test_whoever_does_not_see_the_gap_is_told_where_it_lies_or_that_the_root_is_out_of_reach(parted: Told) -> None:
    assert set(reasons(parted, "t5")) == {"waits for brokers behind b2"}
    assert "waits for the root, which is not heard" in reasons(parted, "t3") + reasons(parted, "t4")


def test_each_reason_is_told_once(parted: Told) -> None:
    told = [(news.client, news.body) for news in parted.news(ReceiptWaits)]
    assert len(told) == len(set(told))
    in_trace = [(row.node, row.detail or "") for row in parted.notes("total_waits")]
    assert len(in_trace) == len(set(in_trace))
    assert [detail for node, detail in in_trace if node == "b0"] == [
        f"t0 ordered:{seq} {reason}" for seq, reason in numbered(parted, "t0")
    ]


def test_everything_but_totals_goes_on_on_both_sides(parted: Told) -> None:
    for name in ("p0", "p5", "p1", "p4", "t2", "t3"):
        got = meanwhile(parted, name)
        assert {row.guarantee for row in got} == {"eventual", "fifo", "causal"}, name
        side = {f"p{other[1:]}" for other in SIX if (other in FAR) == (f"b{name[1:]}" in FAR)}
        assert {row.publisher for row in got} == side


def test_after_the_heal_every_total_is_delivered_and_nobody_was_declared_dead(parted: Told) -> None:
    check_sound(parted)
    assert not parted.notes("repair_begin") and not parted.notes("fenced")
    delivered = receipts(parted, "delivered")
    assert all((row.publisher, row.stream, row.seq) in delivered for row in publications(parted))


def test_it_is_over_when_a_receipt_turns(parted: Told) -> None:
    for waits in parted.news(ReceiptWaits):
        turned = [news for news in parted.news(ReceiptTurned, waits.client) if _covers(news, waits)]
        assert turned and turned[0].time_us > HEAL_US, waits
    # What has waited for its order during the cut closes after it: the last of it is told a little later.
    assert parted.news(ReceiptWaits)[-1].time_us < HEAL_US + 2 * SECOND


def _covers(news: News, waits: News) -> bool:
    turned = news.body
    return bool(turned.stream == waits.body.stream and turned.first <= waits.body.seq <= turned.last)


def test_what_is_carried_is_explained_like_a_total_and_what_has_no_room_like_a_crowd() -> None:
    chain: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1"}
    scene = scenario(chain, clients_per_broker=4, mix="mix = { fifo = 0.8, total = 0.2 }")
    played = ask(scene, [FaultSpec(700_000, FaultKind.FREEZE, nodes=("b1", "b2"))], ())
    fifo = {(row.publisher, row.seq) for row in publications(played) if row.guarantee == "fifo"}
    told = {n.body.reason for n in played.news(ReceiptWaits) if (n.client, n.body.seq) in fifo}
    assert "waits for b1, which is not heard" in told


def test_during_a_repair_that_cannot_end_a_total_waits_for_the_repair() -> None:
    """b1 dies, and b0, which leads its repair, cannot reach one of its children for a while."""
    scene = scenario(FORK)
    faults = [
        FaultSpec(650_000, FaultKind.CUT, links=(("b0", "b2"),)),
        FaultSpec(660_000, FaultKind.CRASH, nodes=("b1",)),
        FaultSpec(20 * SECOND, FaultKind.HEAL),
    ]
    played = ask(scene, faults, ())
    told = {news.body.reason for news in played.news(ReceiptWaits)}
    assert "waits while the tree is repaired around b1" in told
    check_sound(played)
