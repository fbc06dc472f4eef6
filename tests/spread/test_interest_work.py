"""Interest costs about as much per wish among many as among few. Work is counted in lines of code run, not in time."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from resprout.filters.implication import implies as really_implies
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.spread import asked, covers
from resprout.spread.interest import Interest
from resprout.spread.messages import Interested, Outbound
from tests.spread.test_interest import asks_of

FEW, MANY = 250, 1000
Change = tuple[str, Predicate]
"""("want" or "drop", what)."""


def lines_run(job: Callable[[], object]) -> int:
    """Lines of `spread` and `filters` that the job runs."""
    count = 0

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        ours = "/resprout/spread/" in frame.f_code.co_filename or "/resprout/filters/" in frame.f_code.co_filename
        return on_line if ours else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        job()
    finally:
        sys.settrace(before)
    return count


def wants(predicates: list[Predicate]) -> list[Change]:
    return [("want", predicate) for predicate in predicates]


def drops(predicates: list[Predicate]) -> list[Change]:
    return [("drop", predicate) for predicate in predicates]


def plain(n: int) -> list[Predicate]:
    return [parse_predicate(f"a/{k}") for k in range(n)]


def thresholds(n: int) -> list[Predicate]:
    return [parse_predicate("a", f"x > {10_000 + k}") for k in range(n)]


WISHES: dict[str, Callable[[int], list[Predicate]]] = {
    "plain": plain,
    "wildcards": lambda n: [parse_predicate(f"a/{k}/+") for k in range(n)],
    "wildcards first": lambda n: [parse_predicate(f"+/{k}") for k in range(n)],
    "all, then plain": lambda n: [parse_predicate("#"), *plain(n)],
    "plain, then all": lambda n: [*plain(n), parse_predicate("#")],
    "different conditions": lambda n: [parse_predicate("a", f"x = {k}") for k in range(n)],
    "ever narrower conditions": thresholds,
    "ever wider conditions": lambda n: thresholds(n)[::-1],
    "conditions of two parts": lambda n: [parse_predicate("a/#", f"x > {k} and y < 7") for k in range(n)],
    "many names, then wildcards over them": lambda n: [
        parse_predicate(text.format(k)) for text in ("{}/a", "+/{}") for k in range(n)
    ],
    "filters of two choices": lambda n: [
        parse_predicate("/".join("a+"[k >> bit & 1] for bit in range(10)) + f"/{k}") for k in reversed(range(n))
    ],
}


def quarrels(n: int) -> Iterator[tuple[str, list[Change]]]:
    """Changes that would cost most if all that was wanted were looked at, or moved, again and again."""
    everything, branch = parse_predicate("#"), parse_predicate("a/#")
    back_and_forth: list[Change] = [("want", everything), ("drop", everything)] * n
    yield "a wide wish comes and goes", wants(plain(n)) + back_and_forth
    yield "a wider wish comes and goes", wants([branch, *plain(n)]) + back_and_forth
    ladder = [parse_predicate("a", f"x > {5_000 - k}") for k in range(n)]
    steps = [step for k in range(1, n) for step in (("want", ladder[k]), ("drop", ladder[k - 1]))]
    yield "the widest is replaced over and over", wants([ladder[0], *thresholds(n)]) + steps
    yield "the widest goes, every time", wants(thresholds(n)) + drops(thresholds(n))


def work(changes: list[Change], leave: bool = False, patience: int = 64) -> int:
    interest = Interest()
    interest.add_neighbour("n")

    def job() -> None:
        outbound: Outbound = []
        for what, predicate in changes:
            (interest.want if what == "want" else interest.drop)("c", predicate, outbound)
        if leave:
            interest.drop_all("c", outbound)
            assert not asks_of(interest, "n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covers, "PATIENCE", patience)  # less than the few, so that few and many use it up alike
        return lines_run(job)


@pytest.mark.parametrize("kind", WISHES)
def test_wishing_and_leaving_take_work_in_proportion(kind: str) -> None:
    few, many = (work(wants(WISHES[kind](n)), leave=True) for n in (FEW, MANY))
    assert many <= 1.3 * (MANY / FEW) * few


@pytest.mark.parametrize("kind", WISHES)
def test_taking_wishes_back_one_by_one_takes_work_in_proportion(kind: str) -> None:
    few, many = (work(wants(WISHES[kind](n)) + drops(WISHES[kind](n))) for n in (FEW, MANY))
    assert many <= 1.3 * (MANY / FEW) * few


@pytest.mark.parametrize("place", range(4))
def test_no_quarrel_between_wide_and_narrow_wishes_takes_more_than_work_in_proportion(place: int) -> None:
    few, many = (work(list(quarrels(n))[place][1]) for n in (FEW, MANY))
    assert many <= 1.3 * (MANY / FEW) * few, list(quarrels(1))[place][0]


def test_conditions_are_compared_a_bounded_number_of_times_for_each_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def implies(*nodes: Any) -> bool:
        nonlocal compared
        compared += 1
        return really_implies(*nodes)

    monkeypatch.setattr(covers, "implies", implies)
    predicates = WISHES["different conditions"](500)
    interest = Interest()
    interest.add_neighbour("n")
    for predicate in predicates:
        interest.want("c", predicate, [])
    assert 0 < compared <= 2 * (covers.PATIENCE // covers.PAIR_PATIENCE) * len(predicates)
    compared = 0
    interest.drop_all("c", [])
    assert compared == 0


def test_a_wide_wish_replaces_no_more_than_it_may_and_the_rest_stays_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "REPLACED_MAX", 10)
    interest = Interest()
    interest.add_neighbour("n")
    for predicate in plain(30):
        interest.want("c", predicate, [])
    outbound: Outbound = []
    interest.want("d", parse_predicate("#"), outbound)
    assert outbound[0] == ("n", Interested(31, "#", None)) and len(outbound) == 11
    assert len(asks_of(interest, "n")) == 21
    outbound.clear()
    interest.drop("d", parse_predicate("#"), outbound)
    assert len(outbound) == 11 and sorted(asks_of(interest, "n")) == sorted(plain(30))
