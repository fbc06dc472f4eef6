"""Where the thesis' pseudocode fails: one test for each correction, named as in docs/stacks/ginger.md."""

import re
from collections import Counter

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Send
from resprout.core.guarantee import Guarantee
from resprout.scenario.model import BrokerSpec, FaultKind, FaultSpec, Mix
from resprout_lab.ginger.clients import GingerClients
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.messages import (
    LostMessage,
    LostMessageRequest,
    Metadata,
    ParentRequest,
    ParentResponse,
    Progress,
    TotalAck,
    TotalLock,
    TotalProcessed,
    TotalRequest,
)  # fmt: skip
from resprout_lab.ginger.options import GingerOptions
from resprout_lab.ginger.totals import GingerTotals
from resprout_lab.ginger.window import GingerLink, WindowEntry, id_of
from tests.stacks.ginger_runs import (
    WORK_BEGINS_US,
    clients,
    crash,
    crash_points,
    notes,
    play,
    scenario,
    tree,
    work,
)  # fmt: skip

BANK = tree({"b0": None, "b1": "b0", "b2": "b0", "b3": "b0", "b4": "b1", "b5": "b1", "b6": "b2", "b7": "b3"})
"""The tree of the thesis' experiments."""

CAUSAL = Mix(causal=1.0)
WITH_TOTALS = Mix(causal=0.5, total=0.5)
MIDDLE_US = WORK_BEGINS_US + 10_000


def total(publisher: str, seq: int, topic: str = "a", keys: tuple[str, ...] = ("k",)) -> Bundle:
    return Bundle(publisher, 1, seq, 1, 1, topic, keys, Guarantee.TOTAL, b"", pack_payloads([b""]))


def root_with(*children: str) -> tuple[GingerCore, GingerTotals]:
    core = GingerCore("root", GingerOptions())
    core.is_root = True
    core.epoch = 1
    totals = GingerTotals(core)
    GingerClients(core, totals)
    for child in children:
        core.links[child] = GingerLink(child, False)
        core.outbox.begin(child, 1 << 20)
        core.wishes.add_link(child, ())
    return core, totals


def sent(core: GingerCore, kind: type) -> Counter[str]:
    return Counter(e.peer for e in core.out if isinstance(e, Send) and isinstance(e.message, kind))


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_ginger_g01_the_degree_left_is_derived_and_holds_after_every_repair() -> None:
    homes = clients({"c4": "b4", "c5": "b5", "c6": "b6", "c7": "b7"}, "a")
    first, second = MIDDLE_US, MIDDLE_US + 200_000
    played = play(
        scenario(
            BANK,
            homes,
            work(["c4", "c6", "c7"], "a", operations=200),
            faults=(crash(first, "b1"), crash(second, "b2")),
            total_degree=3,
        )
    )
    played.check_clean()
    assert max(played.degrees().values()) <= 3
    answers = [message.accepted for message in played.messages(ParentResponse)]
    assert False in answers, "somebody was declined, because the degree was used up"
    assert played.parents()["b6"] == "b0", "the second repair finds the degree that the first crash gave back"


def test_ginger_g02_whoever_is_declined_everywhere_breaks_the_degree_and_does_not_ask_for_ever() -> None:
    star = tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b1", "b4": "b1"})
    played = play(
        scenario(
            star,
            clients({"c2": "b2", "c3": "b3", "c4": "b4"}, "a"),
            work(["c2", "c3", "c4"], "a"),
            faults=(crash(MIDDLE_US, "b1"),),
            total_degree=1,
        )
    )
    played.check_clean()
    assert set(played.parents().values()) == {None, "b0"}
    rounds = Counter(name for name, _ in notes(played, "repair_round"))
    assert sorted(rounds.values()) == [1, 4, 4], "one is accepted; the others ask all, then break the degree"
    assert any(message.break_degree for message in played.messages(ParentRequest) if message.dead)


def test_ginger_g02_without_anybody_to_ask_a_broker_stays_detached_and_tries_again_after_a_pause() -> None:
    chain = tree({"b0": None, "b1": "b0", "b2": "b1"})
    played = play(scenario(chain, (), faults=(crash(MIDDLE_US, "b0", "b1"),), time_limit_us=20_000_000))
    assert played.result.ended == "timeout"
    quest = played.brokers["b2"].tree.seeker.quest
    assert quest is not None and set(quest.dead) == {"b0", "b1"}
    assert played.result.stats.events < 2_000, "it pauses between attempts"


def test_ginger_g03_orphans_that_ask_each_other_never_become_each_others_parents() -> None:
    star = tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b1", "b4": "b1", "b5": "b2"})
    homes = clients({"c0": "b0", "c2": "b2", "c3": "b3", "c5": "b5"}, "a")
    asked = set()
    for degree in (1, 2, 3):
        mortal = scenario(star, homes, work(["c0", "c3"], "a"), total_degree=degree)
        for moment in crash_points(mortal, "b1", 4):
            played = play(mortal, [moment])
            played.check_clean()
            asked |= {
                (broker, peer)
                for broker, peer, message in played.said
                if isinstance(message, ParentRequest) and message.dead and peer != "b0"
            }
    assert any((other, one) in asked for one, other in asked), "two of them did ask each other"


def test_ginger_g03_an_orphan_that_waits_for_its_own_answer_accepts_nobody() -> None:
    """The near one is declined and asks the far one, which has not been answered yet, and will be declined as well."""
    near, far = 500, 50_000
    brokers = (
        BrokerSpec("b0"),
        BrokerSpec("b1", "b0", near),
        BrokerSpec("other", "b0", near),
        BrokerSpec("full", "b1", near),
        BrokerSpec("near", "b1", 4 * near),
        BrokerSpec("far", "b1", far),
        BrokerSpec("child", "full", near),
    )
    homes = clients({"c0": "b0", "c1": "near", "c2": "far"}, "a")
    faults = (crash(MIDDLE_US, "b1"),)
    played = play(scenario(brokers, homes, work(["c1", "c2"], "a"), faults=faults, total_degree=2))
    played.check_clean()
    asked = [(broker, peer) for broker, peer, message in played.said if isinstance(message, ParentRequest)]
    assert ("near", "far") in asked and ("far", "near") in asked


def test_ginger_g04_a_new_parent_subscribes_for_its_child_before_anything_passes() -> None:
    chain = tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b0", "b4": "b3"})
    mortal = scenario(
        chain,
        (*clients({"s": "b2"}, "t"), *clients({"p": "b4"}, "nothing")),
        work(["p"], "t", mix=CAUSAL, operations=40),
        total_degree=1,
    )
    for moment in crash_points(mortal, "b1", 12):
        played = play(mortal, [moment])
        played.check_clean()
        assert played.parents()["b2"] == "b0"
        assert played.verdict.counts["owed"] == 40


def test_ginger_g05_repairs_end_one_by_one_and_none_is_counted_for_another() -> None:
    homes = clients({"c4": "b4", "c5": "b5", "c6": "b6", "c7": "b7"}, "a")
    for apart_us in (0, 500, 1_000, 2_000, 3_000):
        faults = (crash(MIDDLE_US, "b1"), crash(MIDDLE_US + apart_us, "b2"), crash(MIDDLE_US + 2 * apart_us, "b3"))
        played = play(scenario(BANK, homes, work(["c4", "c6", "c7"], "a"), faults=faults, total_degree=3))
        played.check_clean()
        ended = Counter(notes(played, "repair_end"))
        assert ended == Counter([("b4", "b1"), ("b5", "b1"), ("b6", "b2"), ("b7", "b3")])


# -- nothing lost, nothing twice ---------------------------------------------------------------------------------------


def test_ginger_g06_each_side_says_what_it_has_itself_and_gets_what_it_lacks() -> None:
    """The publisher's messages pass only through the broker that dies: its parent wants none of them."""
    star = tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b1"})
    mortal = scenario(
        star,
        (*clients({"s": "b3"}, "t"), *clients({"p": "b2", "q": "b2"}, "nothing")),
        work(["p", "q"], "t", mix=CAUSAL, interval_us=300),
    )
    pushed = brought = 0
    for moment in crash_points(mortal, "b1", 20):
        played = play(mortal, [moment])
        played.check_clean()
        lost = [(broker, peer) for broker, peer, message in played.said if isinstance(message, LostMessage)]
        pushed += ("b2", "b0") in lost
        brought += ("b0", "b3") in lost
    assert pushed and brought


def test_ginger_g07_a_buffer_that_is_too_small_pushes_back_and_loses_nothing() -> None:
    """The thesis' own rates: 5 clients at 50 ms for a 2 s timer are 200 messages, more than its buffer of 150."""
    homes = {f"c{no}": f"b{no}" for no in (2, 4, 5, 6, 7)}
    mortal = scenario(
        BANK,
        clients(homes, "a"),
        work(list(homes), "a", mix=Mix(eventual=0.5, causal=0.5), interval_us=50_000, operations=120),
        faults=(FaultSpec(WORK_BEGINS_US + 1_000_000, FaultKind.CRASH, nodes=("b1",), host=True),),
        buffer=40,
        total_degree=3,
    )
    played = play(mortal)
    played.check_clean()
    assert played.held, "somebody was pushed back"
    requests = played.messages(LostMessageRequest)
    assert sum(len(request.buffered) for request in requests) > 40, "more than the buffer was kept until stable"


def test_ginger_g08_what_two_orphans_bring_is_taken_once() -> None:
    star = tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b1"})
    mortal = scenario(
        star, clients({"c0": "b0", "c2": "b2", "c3": "b3"}, "a"), work(["c2"], "a", mix=CAUSAL, operations=8)
    )
    both = 0
    for moment in crash_points(mortal, "b1", 30):
        played = play(mortal, [moment])
        played.check_clean()
        brought = Counter(
            id_of(message.bundle)
            for broker, peer, message in played.said
            if peer == "b0" and isinstance(message, LostMessage)
        )
        both += any(count > 1 for count in brought.values())
    assert both, "in some run the parent was brought the same message by both"


def test_ginger_g09_gaps_in_a_clients_numbers_mean_nothing() -> None:
    """A subscriber of one of two topics sees every other number of the publisher, and waits for none."""
    chain = tree({"b0": None, "b1": "b0", "b2": "b1"})
    homes = (*clients({"s": "b2"}, "b"), *clients({"p": "b0"}, "nothing"))
    calm = scenario(chain, homes, work(["p"], "a", "b", mix=CAUSAL, operations=60))
    played = play(calm)
    played.check_clean()
    numbers = [row.seq for row in played.result.rows if row.kind == "deliver" and row.node == "s" and row.seq]
    assert len(numbers) < max(numbers), "there are gaps"
    for moment in crash_points(calm, "b1", 8):
        play(calm, [moment]).check_clean()


def test_ginger_g10_the_root_is_followed_in_a_published_order_whoever_dies_with_it() -> None:
    homes = clients({"c2": "b2", "c6": "b6", "c7": "b7"}, "a")
    mortal = scenario(BANK, homes, work(["c2", "c6", "c7"], "a", mix=WITH_TOTALS))
    for moment in crash_points(mortal, "b0", 12):
        played = play(mortal, [moment])
        played.check_clean()
        roots = [broker for broker in played.brokers.values() if broker.core.is_root]
        assert len(roots) == 1 and roots[0].core.epoch == 2
    successor = play(mortal).brokers["b1"].view.succession[0].name
    for apart_us in (0, 700, 2_500, 6_000):
        faults = (crash(MIDDLE_US, "b0"), crash(MIDDLE_US + apart_us, successor))
        survivors = clients({"c6": "b6", "c7": "b7"} if successor == "b1" else {"c4": "b4", "c5": "b5"}, "a")
        played = play(scenario(BANK, survivors, work([c.name for c in survivors], "a"), faults=faults))
        played.check_tree()


# -- total order -------------------------------------------------------------------------------------------------------


def test_ginger_g11_acknowledgements_name_the_total_and_are_kept_by_child() -> None:
    core, totals = root_with("left", "right")
    totals.request(TotalRequest(total("c", 1), 0))
    assert sent(core, TotalLock) == Counter(["left", "right"])
    no = next(iter(totals.in_progress.values())).no
    for _ in range(2):
        totals.hear_ack(core.links["left"], TotalAck(no))
    assert totals.in_progress, "one child's acknowledgement counts once"
    totals.forget_acks("left")
    totals.hear_ack(core.links["right"], TotalAck(no))
    assert totals.in_progress, "that of a dead child does not count for those that replace it"
    totals.hear_ack(core.links["left"], TotalAck(no))
    assert not totals.in_progress
    assert sent(core, TotalProcessed) == Counter(["left", "right"])


def test_ginger_g11_totals_in_progress_are_finished_whoever_dies() -> None:
    homes = clients({"c0": "b0", "c4": "b4", "c5": "b5", "c7": "b7"}, "a")
    mortal = scenario(BANK, homes, work(["c4", "c7"], "a", mix=Mix(total=1.0), keys=1, operations=5), total_degree=3)
    for moment in crash_points(mortal, "b1", 15):
        played = play(mortal, [moment])
        played.check_clean()
        assert played.verdict.counts["deliveries"] == 4 * 10


def test_ginger_g12_two_siblings_that_lock_one_key_at_once_do_not_block_each_other() -> None:
    star = tree({"b0": None, "b1": "b0", "b2": "b0", "b3": "b0"})
    homes = {"c1": "b1", "c2": "b2", "c3": "b3"}
    together = [work([name], "a", mix=Mix(total=1.0), keys=1, operations=10, interval_us=1) for name in homes]
    played = play(scenario(star, clients(homes, "a"), *together))
    played.check_clean()
    assert played.verdict.counts["deliveries"] == 3 * 30
    assert played.verdict.check("total").status == "clean"


def test_ginger_g13_the_barrier_anomaly_is_left_and_the_judge_finds_and_explains_it() -> None:
    """No fault at all: a causal message that was on its way up when the root had locked its key is before the total on
    its own side of the tree, and after it on the other."""
    star = tree({"b0": None, "b1": "b0", "b2": "b0"}, latency_us=5_000)
    homes = {"c1": "b1", "c2": "b2"}
    workload = work(list(homes), "a", mix=WITH_TOTALS, keys=1, operations=20, interval_us=3_000, keys_max=1)
    played = play(scenario(star, clients(homes, "a"), workload))
    played.check_clean()
    assert played.verdict.check("barrier").status == "violated"
    found = next(anomaly for anomaly in played.verdict.anomalies if anomaly.rule == "barrier")
    assert re.fullmatch(
        r"c\d delivered c\d:\d+ at \d+ before the total c\d:\d+ at \d+, "
        r"but c\d delivered it at \d+ after c\d:\d+ at \d+ \(all name a#k0\)",
        found.explanation,
    )
    assert played.verdict.check("total").status == "clean", "the totals themselves are in one order"


def test_ginger_g14_a_clients_queue_waits_behind_what_a_lock_holds() -> None:
    """Publications on a free key would overtake those on a held one, and break FIFO and causal order."""
    star = tree({"b0": None, "b1": "b0", "b2": "b0", "b3": "b2"}, latency_us=4_000)
    homes = {"c1": "b1", "c2": "b2", "c3": "b3"}
    workload = work(list(homes), "a", "b", mix=WITH_TOTALS, keys=2, operations=25, interval_us=1_000)
    played = play(scenario(star, clients(homes, "a", "b"), workload))
    played.check_clean()
    assert played.verdict.check("fifo").status == "clean"
    assert played.verdict.check("causal").status == "clean"
    causal = [m.bundle for m in played.messages(Metadata) if m.bundle.guarantee is Guarantee.CAUSAL]
    assert causal and played.messages(TotalLock)


def test_ginger_g15_delivered_anywhere_is_delivered_everywhere_when_the_root_dies() -> None:
    star = tree({"b0": None, "b1": "b0", "b2": "b0", "b3": "b0"})
    homes = clients({"c0": "b0", "c1": "b1", "c2": "b2", "c3": "b3"}, "a")
    mortal = scenario(star, homes, work(["c1", "c2"], "a", mix=WITH_TOTALS, keys=1, operations=6))
    halfway = 0
    for moment in crash_points(mortal, "b0", 60):
        played = play(mortal, [moment])
        played.check_clean()
        halfway += any(message.place >= 0 for message in played.messages(LostMessage))
    assert halfway, "in some run the root had told only some of its children"


def test_ginger_g15_the_root_shows_a_total_only_when_a_child_has_it_too() -> None:
    """Otherwise its client sees a total that nobody else has processed, goes elsewhere, and publishes before it."""
    core, totals = root_with("child")
    totals.request(TotalRequest(total("c", 1), 0))
    totals.hear_ack(core.links["child"], TotalAck(next(iter(totals.in_progress.values())).no))
    assert sent(core, TotalProcessed) == Counter(["child"])
    assert [entry.id for entry in core.held_back] == [id_of(total("c", 1))]
    core.hear_progress(core.links["child"], Progress(received=1, done=0, clear=0))
    assert not core.held_back


def test_ginger_g16_keys_belong_to_topics_and_a_transfer_locks_both() -> None:
    _, totals = root_with("child")
    transfer = total("c", 1, "a", ("b#k", "k"))
    totals.request(TotalRequest(transfer, 0))

    def deposit(topic: str) -> Bundle:
        return Bundle("d", 1, 1, 1, 1, topic, ("k",), Guarantee.CAUSAL, b"", pack_payloads([b""]))

    assert totals.holds(deposit("a")) and totals.holds(deposit("b"))
    assert not totals.holds(deposit("c"))
    star = tree({"b0": None, "b1": "b0", "b2": "b0"})
    homes = (*clients({"c1": "b1"}, "a"), *clients({"c2": "b2"}, "b"), *clients({"c3": "b2"}, "a", "b"))
    workload = work(["c1", "c2", "c3"], "a", "b", mix=Mix(total=1.0), keys=2, foreign_keys=0.5)
    played = play(scenario(star, homes, workload))
    played.check_clean()
    assert any("#" in key for row in played.result.rows if row.kind == "deliver" for key in row.keys or ())


def test_nothing_is_said_of_publications_that_wait_for_room() -> None:
    """`Progress` waits for nothing, or two brokers could wait for each other's for ever; so it may not speak of what
    its receiver has yet to get."""
    core, _ = root_with("child")
    core.outbox.begin("child", 1)
    for seq in (1, 2, 3):
        made = Bundle("c", 1, seq, 1, seq, "a", (), Guarantee.CAUSAL, b"", pack_payloads([b"x"]))
        core.take_in_new(WindowEntry(made, 0, None, False))
    link = core.links["child"]

    def cleared() -> int:
        link.news = True
        core.report(all_news=True)
        said = [e.message for e in core.out if isinstance(e, Send)]
        got = sum(isinstance(message, Metadata) for message in said)
        clear = max((message.clear for message in said if isinstance(message, Progress)), default=0)
        assert clear == got, "all are delivered on this side"
        return clear

    assert cleared() == 1 and core.outbox.waiting("child") == 2
    core.writable("child", 1)
    assert cleared() == 2
    core.writable("child", 1000)
    assert cleared() == 3
