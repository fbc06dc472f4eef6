"""The operator says that brokers never return, and those that are left go on without them."""

import pytest

from resprout.edge.requests import ForgetAnswered, ForgetRequest, ReceiptWaits
from resprout.scenario.model import FaultKind, FaultSpec
from resprout.trace.schema import Row
from tests.stacks.asking import Asked, Told, ask, two_kinds
from tests.stacks.stage import check_forgotten, check_sound, publications, receipts

SECOND = 1_000_000
SIX: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b1", "b4": "b1", "b5": "b2"}
BELOW = ("b1", "b3", "b4")
ABOVE = ("b0", "b2", "b5")
CUT_US, FORGET_US = 3 * SECOND, 30 * SECOND


def answers(played: Told) -> list[str]:
    return [news.body.reason for news in played.news(ForgetAnswered)]


def totals_delivered(played: Told, client: str, after_us: int) -> list[Row]:
    rows = (row for row in played.rows if row.kind == "deliver" and row.node == client and row.time_us > after_us)
    return [row for row in rows if row.guarantee == "total"]


def check_gone_on(played: Told, near: tuple[str, ...]) -> None:
    """Nothing moved before the operator spoke; afterwards everything of this side was delivered to all of it."""
    assert played.result.ended == "quiescent"
    assert played.verdict.anomalies == [], played.verdict.anomalies[:3]
    assert all(row.time_us >= FORGET_US for row in played.notes("repair_begin"))
    delivered = receipts(played, "delivered")
    mine = {f"{letter}{name[1:]}" for letter in "tp" for name in near}
    for row in publications(played):
        if row.publisher in mine:
            assert (row.publisher, row.stream, row.seq) in delivered, row
    for name in near:
        assert played.news(ReceiptWaits, f"t{name[1:]}"), "it had to wait"
        assert totals_delivered(played, f"t{name[1:]}", FORGET_US)
        assert played.broker(name).parts.totals.pending == 0
        view = played.broker(name).life.view
        assert set(view.neighbours) <= set(near) and set(view.configuration.names) <= set(near)


def cut_off(far: tuple[str, ...], asked: str, *, dead: bool = False) -> Told:
    """These are cut off for good, `dead` or alive, and their clients are gone; then a broker is told to forget them."""
    clients = tuple(f"{letter}{name[1:]}" for letter in "tp" for name in far)
    faults = [
        FaultSpec(CUT_US, FaultKind.PARTITION, nodes=far),
        FaultSpec(CUT_US, FaultKind.CRASH, nodes=clients),
        *(FaultSpec(CUT_US + SECOND, FaultKind.CRASH, nodes=(name,), host=True) for name in far if dead),
    ]
    return ask(two_kinds(SIX, list(SIX)), faults, [Asked(FORGET_US, asked, ForgetRequest(far))])


def test_the_child_of_two_goes_on_when_it_is_told_that_the_silent_host_of_the_root_never_returns() -> None:
    victim, survivor = "b0", "b1"
    scene = two_kinds({"b0": None, "b1": "b0"}, ["b0", "b1"])
    dies = [FaultSpec(CUT_US, FaultKind.CRASH, nodes=(victim,), host=True)]
    told = f"t{survivor[1:]}"
    played = ask(scene, dies, [Asked(FORGET_US, told, ForgetRequest((victim,)))])
    assert answers(played) == [""]
    assert all(row.time_us >= FORGET_US for row in played.notes("repair_begin")), "it could not know"
    assert not [row for row in totals_delivered(played, told, CUT_US + SECOND) if row.time_us < FORGET_US]
    assert totals_delivered(played, told, FORGET_US)
    check_sound(played)
    assert played.parents() == {survivor: None}
    assert played.home(f"t{victim[1:]}") == survivor
    delivered = receipts(played, "delivered")
    assert all((row.publisher, row.stream, row.seq) in delivered for row in publications(played))


@pytest.mark.parametrize("asked", ["t0", "t2"])
def test_the_side_of_the_root_goes_on_without_a_part_that_is_cut_off_for_good(asked: str) -> None:
    played = cut_off(BELOW, asked)
    assert answers(played) == [""]
    check_gone_on(played, ABOVE)
    assert {name: played.parents()[name] for name in ABOVE} == {"b0": None, "b2": "b0", "b5": "b2"}


@pytest.mark.parametrize("dead", [True, False], ids=["dead", "alive"])
def test_a_part_without_the_root_goes_on_with_a_new_one_when_the_other_part_is_forgotten(dead: bool) -> None:
    played = cut_off(ABOVE, "t1", dead=dead)
    assert answers(played) == [""]
    check_gone_on(played, BELOW)
    assert {name: played.parents()[name] for name in BELOW} == {"b1": None, "b3": "b1", "b4": "b1"}


def test_what_is_said_at_one_broker_reaches_the_one_that_decides() -> None:
    """The two at the top die, a majority of the list; b3 is told, and b2 has to follow the root."""
    chain: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1", "b3": "b2"}
    faults = [
        FaultSpec(CUT_US, FaultKind.CRASH, nodes=("b0", "b1"), host=True),
        FaultSpec(CUT_US, FaultKind.CRASH, nodes=("t0", "p0", "t1", "p1")),
    ]
    asked = [Asked(FORGET_US, "t3", ForgetRequest(("b0", "b1")))]
    played = ask(two_kinds(chain, list(chain)), faults, asked)
    assert answers(played) == [""]
    check_sound(played)
    assert played.parents() == {"b2": None, "b3": "b2"}


def test_forgotten_brokers_that_are_heard_again_join_as_new_ones() -> None:
    """They had no clients: whoever is with brokers that are forgotten in error loses what they had not passed on."""
    faults = [FaultSpec(CUT_US, FaultKind.PARTITION, nodes=BELOW), FaultSpec(60 * SECOND, FaultKind.HEAL)]
    asked = [Asked(FORGET_US, "t0", ForgetRequest(BELOW))]
    played = ask(two_kinds(SIX, list(ABOVE), "200s"), faults, asked)
    check_sound(played)
    assert len(played.parents()) == 6
    assert {row.node for row in played.notes("fenced")} == set(BELOW)
    assert all(played.incarnation(name) > 1 for name in BELOW)
    check_forgotten(played)


def test_who_comes_while_a_repair_cannot_end_is_served_and_may_say_so() -> None:
    """b1 is certainly gone and b2 is silent: of three votes one is left. Somebody new connects and speaks for it."""
    faults = [
        FaultSpec(SECOND, FaultKind.CRASH, nodes=("p0",)),
        FaultSpec(CUT_US, FaultKind.CRASH, nodes=("b2",), host=True),
        FaultSpec(CUT_US, FaultKind.CRASH, nodes=("b1",)),
        FaultSpec(20 * SECOND, FaultKind.RECOVER, nodes=("p0",)),
    ]
    asked = [Asked(FORGET_US, "p0", ForgetRequest(("b1", "b2")))]
    played = ask(two_kinds({"b0": None, "b1": "b0", "b2": "b0"}, ["b0"]), faults, asked)
    assert answers(played) == [""]
    begun, ended = played.notes("repair_begin")[0], played.notes("repair_end")[0]
    assert begun.time_us < 20 * SECOND < FORGET_US < ended.time_us
    check_sound(played)
    assert played.parents() == {"b0": None}


# -- refusals ----------------------------------------------------------------------------------------------------------


REFUSED = [
    ("t0", ("b9",), "b9: not known to b0, which waits for no such broker: leave it out"),
    ("t0", ("b1", "b9", "b8"), "b9 and b8: not known to b0, which waits for no such broker: leave it out"),
    ("t0", ("b2",), "b2 is alive here: stop it first, or forget it by force"),
    ("t0", ("b0", "b1"), "b0 cannot forget itself: stop it, or ask another broker"),
    ("t2", ("b1", "b0", "b5"), "b0 and b5 are alive here: stop them first, or forget them by force"),
]


def test_a_wrong_word_is_refused_and_changes_nothing() -> None:
    faults = [FaultSpec(CUT_US, FaultKind.PARTITION, nodes=BELOW), FaultSpec(60 * SECOND, FaultKind.HEAL)]
    asked = [
        Asked(FORGET_US + number * SECOND, client, ForgetRequest(names))
        for number, (client, names, _) in enumerate(REFUSED)
    ]
    played = ask(two_kinds(SIX, list(SIX), "200s"), faults, asked)
    assert answers(played) == [reason for _, _, reason in REFUSED]
    assert not played.notes("forget") and not played.notes("repair_begin")
    assert all(played.broker(name).life.view.forgotten == {} for name in SIX)
    check_sound(played)


def test_what_is_replaced_already_may_be_forgotten_again() -> None:
    scene = two_kinds({"b0": None, "b1": "b0"}, ["b0"])
    dies = [FaultSpec(CUT_US, FaultKind.CRASH, nodes=("b1",), host=True)]
    asked = [Asked(time_us, "t0", ForgetRequest(("b1",))) for time_us in (FORGET_US, FORGET_US + 20 * SECOND)]
    played = ask(scene, dies, asked)
    assert answers(played) == ["", ""]
    assert len(played.notes("repair_end")) == 1
    check_sound(played)
