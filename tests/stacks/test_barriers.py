"""Causal barriers: only direct dependencies are carried, what is too early waits, headers are those of the thesis."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from resprout.core.contract import TimerFired
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Unsubscribe
from resprout.filters.predicate import Predicate
from resprout.wire.sizes import size_of_frame, widest_body
from resprout_lab.blocks.multicast.copies import Copy
from resprout_lab.blocks.multicast.order import Arrival, HeaderSizeError
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.causal_barriers import CAUSAL_BARRIERS, broker
from resprout_lab.causal_barriers.broker import DirectOrder, NewsDue
from resprout_lab.causal_barriers.messages import (
    GONE,
    HEADER_BYTES_MAX,
    Barrier,
    BarrierMulticast,
    Barriers,
    MemberKnown,
    MembersKnown,
)
from tests.edge.desk import Desk
from tests.stacks.multicast_net import Carried, OneBroker, row

STACK = "causal-barriers"


def one_broker(**options: int) -> OneBroker:
    return OneBroker(stack=STACK, **options)


def message(
    publisher: str,
    sender: str,
    number: int,
    *barrier: tuple[str, int],
    topic: str = "t",
    first: int = 1,
    targets: Sequence[str] = ("b0/1", "b1/1"),
) -> BarrierMulticast:
    header = Barriers.of(targets, barrier)
    return BarrierMulticast(Desk(STACK).bundle(publisher, topic, first=first), 1, sender, (), number, header)


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
    for seed in range(20):
        net = Carried(seed, stack=STACK)
        net.run_out_of_order()
        assert net.too_early() == [], f"seed {seed}"
        assert all(sorted(read) == sorted(net.past) for read in net.read.values()), "everything, once"


def test_without_the_barriers_the_same_links_break_causal_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DirectOrder, "missing", lambda self, arrival: None)
    nets = [Carried(seed, stack=STACK) for seed in range(20)]
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
    net.say("b1", MembersKnown((member("b1", "t"),)), FIRST, message("z", "b9/1", 1))
    for _ in range(2):
        net.publish()
    assert header_of(net, 0).of_target("b1/1") == (("b7/1", 1), ("b9/1", 1))
    assert header_of(net, 1).of_target("b1/1") == (("b0/1", 1),)


def test_a_later_message_is_no_less_direct_because_an_earlier_one_of_its_sender_was_answered() -> None:
    net = one_broker()
    net.say("b1", FIRST, SECOND, ANSWER)  # which waits for the first only
    net.publish()
    assert header_of(net).of_target("b1/1") == (("b7/1", 2), ("b8/1", 1))


def test_what_depends_on_another_topic_waits_for_it_and_is_passed_on_behind_it() -> None:
    net = one_broker()
    net.say("b1", ANSWER)
    assert net.shown() == [] and not net.said("b2", BarrierMulticast)
    net.say("b1", FIRST)
    assert net.shown() == [("x", 1), ("y", 1)]
    assert [one.sender for one in net.said("b2", BarrierMulticast)] == ["b7/1", "b8/1"]


def test_messages_of_one_sender_come_in_order_even_if_their_headers_do_not_say_so() -> None:
    net = one_broker()
    net.say("b1", message("x", "b7/1", 2, first=2))
    assert net.shown() == []
    net.say("b2", FIRST)
    assert net.shown() == [("x", 1), ("x", 2)]


def test_headers_are_those_of_the_paper_whatever_the_targets_are() -> None:
    """The paper's algorithm beside this one, with its sets for each process, under links that reorder."""
    for seed in range(10):
        rng = random.Random(seed)
        names = [f"b{no}/1" for no in range(5)]
        wanted = {topic: [name for name in names if rng.random() < 0.6] for topic in "tuv"} | {"all": names}
        papers = {name: _Paper(name, names) for name in names}
        ours = {name: _ours(name, wanted) for name in names}
        on_the_way: list[tuple[str, BarrierMulticast, list[str], dict[str, Barrier]]] = []
        for _ in range(150):
            if rng.random() < 0.4:
                sender, topic = rng.choice(names), rng.choice(list(wanted))
                made = ours[sender].make(Desk(STACK).bundle("x", topic))
                sets = papers[sender].send(wanted[topic])
                assert [name for name, _ in made.barriers.rows] == wanted[topic]
                assert all(made.barriers.of_target(name) == sets[name] for name in names), f"seed {seed}"
                on_the_way += [(name, made, wanted[topic], sets) for name in wanted[topic] if name != sender]
            else:
                able = [one for one in on_the_way if papers[one[0]].may_deliver(one[3][one[0]])]
                if able:
                    one = rng.choice(able)
                    on_the_way.remove(one)
                    papers[one[0]].deliver(one[1].sender, one[1].number, one[2], one[3])
                    _deliver(ours[one[0]], one[1])


class _Paper:
    """A process of section 5.2 as the thesis tells it."""

    def __init__(self, name: str, names: list[str]) -> None:
        self.name, self.names, self.sent = name, names, 0
        self.barriers: dict[str, dict[str, int]] = {name: {} for name in names}
        self.delivered: dict[tuple[str, str], int] = {}

    def send(self, targets: list[str]) -> dict[str, Barrier]:
        self.sent += 1
        if self.name in targets:
            self.delivered[self.name, self.name] = self.sent
        sets = {name: tuple(sorted(self.barriers[name].items())) for name in self.names}
        self.barriers |= {name: {self.name: self.sent} for name in targets}
        return sets

    def may_deliver(self, barrier: Barrier) -> bool:
        return all(number <= self.delivered.get((member, self.name), 0) for member, number in barrier)

    def deliver(self, sender: str, number: int, targets: list[str], sets: dict[str, Barrier]) -> None:
        self.delivered[sender, self.name] = number
        for name in self.names:
            mine = self.barriers[name]
            for member, at in sets[name]:
                if name in targets or name == sender:  # the sender has delivered all that its own set has
                    if mine.get(member, at + 1) <= at:
                        del mine[member]
                else:
                    mine[member] = max(at, mine.get(member, 0))
            if name in targets:
                mine[sender] = max(number, mine.get(sender, 0))


def _ours(name: str, wanted: dict[str, list[str]]) -> DirectOrder:
    order = DirectOrder(name, 1000)
    for topic, members in wanted.items():
        for member in members:
            order.members.add(member, Predicate(topic))
    return order


def _deliver(order: DirectOrder, made: BarrierMulticast) -> None:
    item = KeptItem(made.bundle, 1, None, False)
    order.skip(order.entries(made))
    order.put(Arrival(made, made.number, Copy(1, item, made, made.number, order.entries(made))))
    assert order.take() is not None


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_headers_are_as_large_as_in_the_thesis() -> None:
    members = [f"b{no}/1" for no in range(1_024)]
    worst = Barriers.of(members, tuple([(member, 1) for member in members]))
    assert worst.paper_bytes == 1_024 * 8 + (1 << 20) * 8, "over 2^20 entries: 8 MB"
    assert Barriers.of(members, (("b0/1", 1),)).paper_bytes == 1_024 * 16


def test_a_header_knows_its_length_on_a_connection_to_the_byte() -> None:
    size = size_of_frame(inspect.type_info(BarrierMulticast))
    for targets, barrier in ((1, 0), (3, 1), (20, 17), (300, 90)):
        row = tuple([(f"broker-{no}/{no % 3}", 1 << no % 40) for no in range(barrier)])
        different = Barriers((("a/1", ()), *[(f"b{no}/1", row) for no in range(targets)]))
        for header in (different, Barriers.of([f"b{no}/1" for no in range(targets)], row)):
            one = BarrierMulticast(Desk(STACK).bundle("x"), 3, "b7/1", (), 70_000, header)
            assert size(one) == len(widest_body(one)) and one.cost > header.encoded_bytes


def test_all_brokers_of_a_simulation_share_one_header_and_all_targets_one_row() -> None:
    net = one_broker()
    net.say("b1", FIRST)
    passed = net.said("b2", BarrierMulticast)[0]
    assert passed.hops == 2 and passed.barriers is FIRST.barriers
    net.say("b1", MembersKnown((member("b1", "t"), member("b2", "#"), member("b3", "u"))))
    for _ in range(2):
        net.publish()
    assert len({id(barrier) for _, barrier in header_of(net).rows}) == 1 and len(header_of(net).rows) == 3


def test_the_worst_header_of_511_brokers_fits_into_a_frame_and_that_of_700_is_refused_before_it_is_made() -> None:
    for count, fits in ((511, True), (700, False)):
        names = sorted([f"b{no}/1" for no in range(count)])
        order = _ours("x/1", {"t": names})
        for name in names:
            _deliver(order, message("x", name, 100, targets=names))
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
    (reason,) = net.closed.values()
    assert reason.startswith("a header for 1 targets with 2 dependencies would take ") and list(net.closed) == ["p"]
    assert not [one for one in net.said("b2", BarrierMulticast) if one.sender == "b0/1"]


# -- members -----------------------------------------------------------------------------------------------------------


def member(name: str, *filters: str, life: int = 1, version: int = 1) -> MemberKnown:
    return MemberKnown(name, life, version, filters)


def targets_of(net: OneBroker) -> list[str]:
    return [target for target, _ in header_of(net).rows]


def test_members_are_told_over_a_new_link_and_news_of_them_is_passed_on_together() -> None:
    net = one_broker()
    own, others = member("b0", "t", "u", version=2), (member("b1", "t"), member("b5", "t"), member("b6", "u", life=2))
    net.say("b1", MembersKnown(others[:2]), MembersKnown((others[2], others[1])))
    assert not net.said("b2", MembersKnown), "news waits for more"
    net.step(TimerFired(NewsDue()))
    assert [set(one.members) for one in net.said("b2", MembersKnown)] == [{own, *others}]
    assert [one.members for one in net.said("b1", MembersKnown)] == [(own,)], "it knows the others"
    net.join("b3")
    assert [set(one.members) for one in net.said("b3", MembersKnown)] == [{own, *others}]


def test_the_targets_of_a_message_are_the_members_that_want_its_topic() -> None:
    net = one_broker()
    net.say("b1", MembersKnown((member("b1", "t"), member("b5", "u"), member("b6", "#"))))
    net.publish("t")
    assert targets_of(net) == ["b0/1", "b1/1", "b6/1"]
    net.publish("v")
    assert targets_of(net) == ["b6/1"] and dict(header_of(net).others) == dict.fromkeys(
        ("b0/1", "b1/1"), (("b0/1", 1),)
    ), "who has to wait for the first, should this be answered"


def test_of_a_broker_that_returns_the_later_life_is_a_target_and_one_that_is_gone_is_none() -> None:
    net = one_broker()
    for life in (2, 1, 3):
        net.say("b1", MembersKnown((member("b5", "t", life=life),)))
    net.publish()
    assert targets_of(net) == ["b0/1", "b5/3"]
    net.say("b1", MembersKnown((member("b5", life=3, version=GONE),)))
    net.publish()
    assert targets_of(net) == ["b0/1"] and not header_of(net).others


def test_a_client_that_leaves_makes_its_broker_no_target_any_more() -> None:
    net = one_broker()
    net.say("s", Unsubscribe(1))
    net.publish("t")
    assert targets_of(net) == []


def test_a_broker_waits_for_all_rows_because_it_passes_the_message_on() -> None:
    net = one_broker()
    header = Barriers((("b8/1", (("b7/1", 1),)),), (("b9/1", (("b7/1", 1), ("b8/1", 1))),))
    net.say("b1", BarrierMulticast(Desk(STACK).bundle("y"), 1, "b9/1", (), 1, header))
    net.say("b1", FIRST)
    assert net.shown() == [("x", 1)]
    net.say("b1", message("z", "b8/1", 1))
    assert net.shown() == [("x", 1), ("z", 1), ("y", 1)]


def test_what_did_not_go_over_the_link_is_not_waited_for() -> None:
    net = one_broker()
    net.say("b1", msgspec.structs.replace(ANSWER, skipped=(0,)))
    assert net.shown() == [("y", 1)]


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
        message("x", "b0/1", 7),
        msgspec.structs.replace(message("x", "b7/1", 1, ("b0/1", 7)), skipped=(0,)),
        msgspec.structs.replace(FIRST, skipped=(1,)),
        MembersKnown(tuple([MemberKnown(f"x{no}", 1, 1, ()) for no in range(70_000)])),
    ],
)
def test_a_neighbour_that_says_what_cannot_be_is_cut_off(wrong: Any) -> None:
    net = one_broker()
    net.say("b1", wrong)
    net.publish()
    assert list(net.closed) == ["b1"] and not net.said("b1", BarrierMulticast)
    assert header_of(net).rows == (("b0/1", ()),)
