"""Totals while brokers die: the rounds of closing go on over the new links, and everything is delivered alike."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee
from resprout.order.totals.handover import Handover
from resprout.order.totals.merge import MergedLocks, Piece, Said
from resprout.order.totals.messages import LockReport, id_of
from resprout.order.totals.totals import Totals
from tests.order.totals_checks import faults_of
from tests.order.totals_draw import add_crashes, add_joins, draw_net
from tests.order.totals_net import Net
from tests.order.totals_node import publication
from tests.soak import cases

Make = Callable[[Totals], Handover]


def crash_at_each_event(seed: int, handover: Make = Handover) -> list[str]:
    """The same run again and again, with a crash after its first event, its second, and so on."""
    undisturbed = draw_net(seed, brokers=5, publications=8, span=60)
    undisturbed.run()
    faults: list[str] = []
    for event in range(undisturbed.events):
        net = draw_net(seed, brokers=5, publications=8, span=60, handover=handover)
        net.run(pause_after=event)
        names = list(net.nodes)
        assert net.crash(names[(seed + event) % len(names)], delay=5 + 7 * (event % 5))
        net.run()
        faults += [f"seed {seed}, event {event}: {fault}" for fault in faults_of(net)]
    return faults


def crash_some(seed: int, handover: Make = Handover, publications: int = 14, totals: float | None = None) -> Net:
    net = draw_net(seed, publications=publications, totals=totals, handover=handover)
    add_crashes(net, 4)
    add_joins(net, 1)
    net.run()
    return net


def crash_two_siblings(seed: int, handover: Make = Handover) -> Net:
    """Their parent repairs both, in one go or one after the other."""
    rng = random.Random(f"siblings {seed}")
    homes: dict[str, str | None] = {"r": None, "a": "r", "b": "r", "a1": "a", "b1": "b"}
    net = Net(homes, lambda a, b: rng.randint(1, 20), rng, handover)
    following = dict.fromkeys((f"c-{home}" for home in homes), 1)
    for home in homes:
        net.place(f"c-{home}", home)
    for when in sorted(rng.randrange(120) for _ in range(14)):
        client = rng.choice(list(following))
        guarantee = Guarantee.TOTAL if rng.random() < 0.3 else Guarantee.CAUSAL
        bundle = publication(client, following[client], ("x",), guarantee)
        following[client] += 1
        net.at(when, lambda bundle=bundle: net.publish(bundle))  # type: ignore[misc]
    first = rng.randrange(120)
    net.at(first, lambda: net.crash("a", 10))
    net.at(first + rng.randrange(9), lambda: net.crash("b", 10))
    net.run()
    return net


@pytest.mark.parametrize("tens", range(cases(2, 4)))
def test_a_broker_may_die_after_any_event(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        assert not crash_at_each_event(seed)


def test_repairs_may_follow_and_overlap_each_other_and_joins() -> None:
    crashed, tried = 0, cases(300, 1000)
    for seed in range(tried):
        net = crash_some(seed)
        assert not faults_of(net), f"seed {seed}"
        crashed += len(net.nodes) - len(net.alive)
    assert crashed > 2 * tried, "the test means something"


def test_totals_that_close_side_by_side_survive_repairs_in_order() -> None:
    for seed in range(cases(60, 200)):
        net = crash_some(seed, publications=40, totals=0.9)
        assert not faults_of(net), f"seed {seed}"


def test_one_repair_may_replace_several_pieces_of_the_tree() -> None:
    for seed in range(cases(120, 400)):
        assert not faults_of(crash_two_siblings(seed)), f"seed {seed}"


# -- each rule of the hand-over is needed ------------------------------------------------------------------------------


class ForgetsWhatMembersHadTold(Handover):
    def lead(self, merged: MergedLocks) -> None:
        super().lead(merged._replace(told={}))


class ForgetsWhatTheDeadHadSaid(Handover):
    def lead(self, merged: MergedLocks) -> None:
        super().lead(merged._replace(said={id: Said(-1, True) for id in merged.said}))


class TakesSilenceForClosed(Handover):
    def lead(self, merged: MergedLocks) -> None:
        super().lead(merged._replace(said={id: Said(said.highest, False) for id, said in merged.said.items()}))


class TakesAllPiecesForOne(Handover):
    def merge(self, reports: Any, pieces: Sequence[Piece]) -> MergedLocks:
        dead = [name for piece in pieces for name in piece.dead]
        return super().merge(reports, [Piece(dead, [name for piece in pieces for name in piece.members])])


class ReportsNothing(Handover):
    def report(self, dead: Any) -> tuple[LockReport, ...]:
        return ()


class DeliversOnlyByItself(Handover):
    def deliver_at(self, bundle: Bundle) -> None:
        pass


class DeliversWithoutAWord(Handover):
    def deliver_at(self, bundle: Bundle) -> None:
        record = self._totals.locks.undelivered.get(id_of(bundle))
        if record is not None:
            self._totals.settle(record, bundle.stamp)


class ForgetsWhatItDeliveredSince(Handover):
    def close_behind(self, bundle: Bundle, coordinator: str) -> None:
        pass


class NeverSubmitsAgain(Handover):
    def resume(self) -> None:
        self._totals.held = False
        self._totals.progress()


class DoesNotGoOn(Handover):
    def resume(self) -> None:
        self._totals.held = False
        self._totals.resubmit()


BROKEN = (
    ForgetsWhatMembersHadTold, ForgetsWhatTheDeadHadSaid, TakesSilenceForClosed, TakesAllPiecesForOne, ReportsNothing,
    DeliversOnlyByItself, DeliversWithoutAWord, ForgetsWhatItDeliveredSince, NeverSubmitsAgain, DoesNotGoOn,
)  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_without_any_one_of_its_rules_the_hand_over_fails(broken: Make) -> None:
    assert (
        any(crash_at_each_event(seed, broken) for seed in range(4))
        or any(faults_of(crash_some(seed, broken)) for seed in range(1500))
        or any(faults_of(crash_two_siblings(seed, broken)) for seed in range(800))
    )
