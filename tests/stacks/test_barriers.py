"""Causal barriers: only direct dependencies are carried, what is too early waits, headers are those of the thesis."""

import random
from typing import Any

import pytest

from resprout.core.contract import TimerFired
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Publish
from resprout.wire.sizes import size_of_frame, widest_body
from resprout_lab.blocks.multicast.messages import NotOwed
from resprout_lab.blocks.multicast.order import Arrival, HeaderSizeError
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.causal_barriers import CAUSAL_BARRIERS, broker
from resprout_lab.causal_barriers.broker import (
    HEADER_BYTES_MAX,
    Barrier,
    BarrierMulticast,
    Barriers,
    DirectOrder,
    MembersKnown,
    NewsDue,
)
from tests.edge.desk import Desk
from tests.soak import cases
from tests.stacks.multicast_net import Carried, OneBroker, row

STACK = "causal-barriers"


def one_broker(**options: int) -> OneBroker:
    return OneBroker(stack=STACK, **options)


def message(
    publisher: str, sender: str, number: int, *barrier: tuple[str, int], topic: str = "t", first: int = 1
) -> BarrierMulticast:
    header = Barriers.of(("b0/1", "b1/1"), barrier)
    return BarrierMulticast(Desk(STACK).bundle(publisher, topic, first=first), 1, sender, number, header)


def header_of(net: OneBroker, number: int = -1) -> Barriers:
    """Of a publication from here."""
    found: Barriers = [one.barriers for one in net.said("b2", BarrierMulticast) if one.sender == "b0/1"][number]
    return found


FIRST = message("x", "b7/1", 1)
SECOND = message("x", "b7/1", 2, ("b7/1", 1), first=2)
ANSWER = message("y", "b8/1", 1, ("b7/1", 1), topic="u")
"""It was published where the first had been read."""

# -- order -------------------------------------------------------------------------------------------------------------


def test_whatever_order_links_bring_readers_see_causal_order_over_all_topics() -> None:
    for seed in range(cases(6, 20)):
        net = Carried(seed, stack=STACK)
        net.run_out_of_order()
        assert net.too_early() == [], f"seed {seed}"
        assert all(sorted(read) == sorted(net.past) for read in net.read.values()), "everything, once"


def test_without_the_barriers_the_same_links_break_causal_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DirectOrder, "missing", lambda self, arrival: None)
    nets = [Carried(seed, stack=STACK) for seed in range(cases(6, 20))]
    for net in nets:
        net.run_out_of_order()
    assert all(net.too_early() for net in nets)


def test_the_example_of_the_paper_carries_the_direct_dependency_and_not_the_one_behind_it() -> None:
    net = one_broker()
    net.say("b1", FIRST, ANSWER)  # M1 of P1, and M2 of P2, who had read it
    net.publish()  # M3
    assert header_of(net).of_target("b1/1") == (("b8/1", 1),)


def test_what_nothing_else_here_depends_on_is_carried_and_then_the_last_of_its_own() -> None:
    net = one_broker()
    net.say("b1", FIRST, message("z", "b9/1", 1))
    for _ in range(2):
        net.publish()
    assert header_of(net, 0).of_target("b1/1") == (("b7/1", 1), ("b9/1", 1))
    assert header_of(net, 1).of_target("b1/1") == (("b0/1", 1),)


def test_a_later_message_is_no_less_direct_because_an_earlier_one_of_its_sender_was_answered() -> None:
    net = one_broker()
    net.say("b1", FIRST, SECOND, ANSWER)  # which waits for the first only
    net.publish()
    assert header_of(net).of_target("b1/1") == (("b7/1", 2), ("b8/1", 1))


def test_what_depends_on_another_topic_waits_for_it_and_is_passed_on_at_once() -> None:
    net = one_broker()
    net.say("b1", ANSWER)
    assert net.shown() == [] and len(net.said("b2", BarrierMulticast)) == 1
    net.say("b1", FIRST)
    assert net.shown() == [("x", 1), ("y", 1)]


def test_messages_of_one_sender_come_in_order_even_if_their_headers_do_not_say_so() -> None:
    net = one_broker()
    net.say("b1", message("x", "b7/1", 2, first=2))
    assert net.shown() == []
    net.say("b2", FIRST)
    assert net.shown() == [("x", 1), ("x", 2)]


def test_a_header_removes_by_direct_dependencies_all_that_the_matrix_of_the_paper_would() -> None:
    """The paper's algorithm beside this one, with its sets for each target and its matrix of what is delivered where,
    under links that reorder: the same messages wait for the same."""
    for seed in range(10):
        rng = random.Random(seed)
        names = [f"b{no}/1" for no in range(5)]
        papers = {name: _Paper(name, names) for name in names}
        ours = {name: _ours(name, names) for name in names}
        on_the_way: list[tuple[str, BarrierMulticast, dict[str, Barrier]]] = []
        for _ in range(120):
            if rng.random() < 0.4:
                sender = rng.choice(names)
                made = ours[sender].make(Desk(STACK).bundle("x"))
                sets = papers[sender].send()
                assert all(made.barriers.of_target(name) == sets[name] for name in names), f"seed {seed}"
                on_the_way += [(name, made, sets) for name in names if name != sender]
            else:
                able = [one for one in on_the_way if papers[one[0]].may_deliver(one[2][one[0]])]
                if able:
                    one = rng.choice(able)
                    on_the_way.remove(one)
                    papers[one[0]].deliver(one[1].sender, one[1].number, one[2])
                    _deliver(ours[one[0]], one[1])


class _Paper:
    """A process of section 5.2 as the thesis tells it; everybody is a target, its sender included."""

    def __init__(self, name: str, names: list[str]) -> None:
        self.name, self.names, self.sent = name, names, 0
        self.barriers: dict[str, dict[str, int]] = {name: {} for name in names}
        self.delivered: dict[tuple[str, str], int] = {}

    def send(self) -> dict[str, Barrier]:
        self.sent += 1
        self.delivered[self.name, self.name] = self.sent
        sets = {name: tuple(sorted(self.barriers[name].items())) for name in self.names}
        self.barriers = {name: {self.name: self.sent} for name in self.names}
        return sets

    def may_deliver(self, barrier: Barrier) -> bool:
        return all(number <= self.delivered.get((member, self.name), 0) for member, number in barrier)

    def deliver(self, sender: str, number: int, sets: dict[str, Barrier]) -> None:
        self.delivered[sender, self.name] = self.delivered[sender, sender] = number
        for member, at in sets[sender]:
            self.delivered[member, sender] = max(at, self.delivered.get((member, sender), 0))
        for name in self.names:
            mine = self.barriers[name]
            for member, at in sets[name]:
                if mine.get(member, at + 1) <= at:
                    del mine[member]
            mine[sender] = max(number, mine.get(sender, 0))
            if name != self.name:
                known = [one for one in mine if one != name and mine[one] <= self.delivered.get((one, name), 0)]
                assert not known, "the matrix would remove nothing but what it knows of targets about themselves"


def _ours(name: str, names: list[str]) -> DirectOrder:
    order = DirectOrder(name, 1000)
    order.targets = tuple(names)
    return order


def _deliver(order: DirectOrder, made: BarrierMulticast) -> None:
    order.put(Arrival(made, made.number, KeptItem(made.bundle, 1, None, False)))
    assert order.take() is not None


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_headers_are_as_large_as_in_the_thesis() -> None:
    members = [f"b{no}/1" for no in range(1_024)]
    worst = Barriers.of(members, tuple([(member, 1) for member in members]))
    assert worst.paper_bytes == 1_024 * 8 + (1 << 20) * 8, "over 2^20 entries: 8 MB"
    assert Barriers.of(members, (("b0/1", 1),)).paper_bytes == 1_024 * 16


def test_a_header_knows_its_length_on_a_connection_to_the_byte() -> None:
    size = size_of_frame(BarrierMulticast)
    for targets, barrier in ((1, 0), (3, 1), (20, 17), (300, 90)):
        row = tuple([(f"broker-{no}/{no % 3}", 1 << no % 40) for no in range(barrier)])
        different = Barriers((("a/1", ()), *[(f"b{no}/1", row) for no in range(targets)]))
        for header in (different, Barriers.of([f"b{no}/1" for no in range(targets)], row)):
            one = BarrierMulticast(Desk(STACK).bundle("x"), 3, "b7/1", 70_000, header)
            assert size(one) == len(widest_body(one)) and one.cost > header.encoded_bytes


def test_all_brokers_of_a_simulation_share_one_header_and_all_targets_one_row() -> None:
    net = one_broker()
    net.say("b1", FIRST)
    passed = net.said("b2", BarrierMulticast)[0]
    assert passed.hops == 2 and passed.barriers is FIRST.barriers
    net.say("b1", MembersKnown((("b1", 1), ("b2", 1))))
    net.publish()
    assert len({id(barrier) for _, barrier in header_of(net).rows}) == 1 and len(header_of(net).rows) == 3


def test_the_worst_header_of_511_brokers_fits_into_a_frame_and_that_of_700_is_refused_before_it_is_made() -> None:
    for count, fits in ((511, True), (700, False)):
        order = _ours("b0/1", [f"b{no}/1" for no in range(count)])
        order.pass_over((("#", tuple([(f"b{no}/1", 100) for no in range(count)])),))
        bundle = Desk(STACK).bundle("x")
        if fits:
            order.check_room(bundle)
            assert order.make(bundle).barriers.encoded_bytes > 2_000_000
        else:
            with pytest.raises(HeaderSizeError, match=f"a header for 700 targets .* room for {HEADER_BYTES_MAX}"):
                order.check_room(bundle)


def test_a_header_that_finds_no_room_costs_the_publisher_its_session_and_counts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker, "HEADER_BYTES_MAX", 20)
    net = one_broker()
    net.say("b1", FIRST, message("z", "b9/1", 1))
    net.publish()
    expected = "a header for 1 targets with 2 dependencies each would take 23 bytes; there is room for 20"
    assert net.closed == {"p": expected}
    assert not [one for one in net.said("b2", BarrierMulticast) if one.sender == "b0/1"]
    net.say("b1", message("q", "b7/1", 2, ("b7/1", 1), ("b9/1", 1)))
    net.say("s", Publish(net.bundles.bundle("s")))
    assert [one.number for one in net.said("b2", BarrierMulticast) if one.sender == "b0/1"] == [1], "now it fits"


# -- members -----------------------------------------------------------------------------------------------------------


def test_members_are_told_over_a_new_link_and_news_of_them_is_passed_on_together() -> None:
    net = one_broker()
    net.say("b1", MembersKnown((("b1", 1), ("b5", 1))), MembersKnown((("b6", 2), ("b5", 1))))
    assert net.said("b2", MembersKnown) == [MembersKnown((("b0", 1),))], "the greeting"
    net.step(TimerFired(NewsDue()))
    assert net.said("b2", MembersKnown)[1:] == [MembersKnown((("b1", 1), ("b5", 1), ("b6", 2)))]
    assert len(net.said("b1", MembersKnown)) == 1, "it knows"
    net.join("b3")
    assert net.said("b3", MembersKnown) == [MembersKnown((("b0", 1), ("b1", 1), ("b5", 1), ("b6", 2)))]
    net.publish()
    assert [target for target, _ in header_of(net).rows] == ["b0/1", "b1/1", "b5/1", "b6/2"]


def test_of_a_broker_that_returns_the_later_life_is_a_target() -> None:
    net = one_broker()
    net.say("b1", MembersKnown((("b5", 2),)), MembersKnown((("b5", 1),)), MembersKnown((("b5", 3),)))
    net.publish()
    assert [target for target, _ in header_of(net).rows] == ["b0/1", "b5/3"]


def test_whoever_a_message_does_not_name_waits_for_all_that_its_targets_wait_for() -> None:
    net = one_broker()
    header = Barriers((("b8/1", (("b7/1", 1),)), ("b9/1", (("b8/1", 0 + 1), ("b7/1", 1)))))
    net.say("b1", BarrierMulticast(Desk(STACK).bundle("y"), 1, "b9/1", 1, header))
    net.say("b1", FIRST)
    assert net.shown() == [("x", 1)]
    net.say("b1", message("z", "b8/1", 1))
    assert net.shown() == [("x", 1), ("z", 1), ("y", 1)]


def test_what_is_not_owed_is_not_waited_for_and_goes_with_the_next_message() -> None:
    net = one_broker()
    net.say("b1", ANSWER, NotOwed((("#", (("b7/1", 1), ("b6/1", 4))),)))
    assert net.shown() == [("y", 1)]
    net.publish()
    assert header_of(net).of_target("b1/1") == (("b6/1", 4), ("b8/1", 1))


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_total_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError) as error:
        row(guarantee="total", stack=STACK)
    assert str(error.value).endswith("does not offer 'total'; it offers eventual, fifo, causal")
    desk = Desk(STACK)
    desk.serve("c")
    desk.guarantee = Guarantee.TOTAL
    desk.publish("c")
    assert desk.closed == {"c": "the stack 'causal-barriers' does not offer 'total'; it offers eventual, fifo, causal"}


def test_options_that_cannot_be_are_refused() -> None:
    for bad in ({"buffer": 0}, {"held_back": 0}, {"faults_tolerated": 1}):
        with pytest.raises(UsageError):
            CAUSAL_BARRIERS.parse_options(bad)


@pytest.mark.parametrize(
    "wrong",
    [
        message("x", "b7/1", 0),
        message("x", "b7/1", 1 << 60),
        message("x", "b7/1", 1, ("b8/1", 0)),
        message("x", "b7/1", 1, ("b8/1", 1 << 60)),
        BarrierMulticast(Desk(STACK).bundle("x"), 1, "b7/1", 1, Barriers(())),
        message("x", "b0/1", 7),
        NotOwed((("#", (("b0/1", 7),)),)),
        MembersKnown(tuple([(f"x{no}", 1) for no in range(70_000)])),
    ],
)
def test_a_neighbour_that_says_what_cannot_be_is_cut_off(wrong: Any) -> None:
    net = one_broker()
    net.say("b1", wrong)
    net.publish()
    assert list(net.closed) == ["b1"] and not net.said("b1", BarrierMulticast)
    assert header_of(net).rows == (("b0/1", ()),)
