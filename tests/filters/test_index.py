import itertools
import random
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.limits import AttributeValue
from resprout.filters import index as index_module
from resprout.filters import shelves
from resprout.filters.index import SHALLOW_LEVELS, FilterMap, MatchIndex
from resprout.filters.predicate import Condition, Predicate, parse, parse_predicate, topic_matches
from tests.filters import reference
from tests.footprint import kept_by
from tests.soak import cases

SETTINGS = settings(deadline=None, derandomize=True, max_examples=cases(40, 120))

NAMES = ["a", "b", "c"]
CONSTANTS: list[AttributeValue] = [True, False, 0, 1, 2, 2.5, "x", "xy", "y"]
TOPICS = ["t", "t/u", "t/u/v", "$s", "$s/u", "w", "/"]
FILTERS = ["t", "t/u", "t/#", "#", "+", "+/u", "+/#", "t/+/v", "$s/#", "$s", "w", "+/+"]

conditions = st.one_of(
    st.none(),
    reference.trees(NAMES, st.sampled_from(CONSTANTS)).map(reference.written),
    st.sampled_from(
        ["a = 1", "a = 1 and b > 1", "a = 1 and b = 'x' and c = 2", "b between 1 and 2", "a > 2 and a < 1",
         "a is null", "a is null or b = 1", "a like 'x%'", "c >= 1 and c < 2.5 and a = 'x'", "a = 1 and a = 2",
         "a > 1 and a > 'x'", "a in (1, 2) or b in (1, 2)"]
    ),
)  # fmt: skip
predicates = st.builds(parse_predicate, st.sampled_from(FILTERS), conditions)
messages = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from([*CONSTANTS, float("nan"), float("inf"), "xyz"]), max_size=3
)


class OneByOne:
    """The same promise, kept by asking everyone."""

    def __init__(self) -> None:
        self.pairs: dict[int, list[Predicate]] = {}

    def add(self, id_: int, predicate: Predicate) -> bool:
        known = self.pairs.setdefault(id_, [])
        if predicate in known:
            return False
        known.append(predicate)
        return True

    def remove(self, id_: int, predicate: Predicate) -> bool:
        known = self.pairs.get(id_, [])
        if predicate not in known:
            return False
        known.remove(predicate)
        if not known:
            del self.pairs[id_]
        return True

    def match_any(self, topics: list[str], attributes: reference.Values) -> list[int]:
        def asks(id_: int, row: reference.Values, only_always: bool) -> bool:
            return any(
                predicate.matches(topic, row)
                for topic in topics
                for predicate in self.pairs[id_]
                if not only_always or predicate.where is None
            )

        always = [id_ for id_ in self.pairs if asks(id_, {}, True)]
        return always + [id_ for id_ in self.pairs if id_ not in always and asks(id_, attributes, False)]


@pytest.mark.parametrize("bucket_rows", [0, 2])
@SETTINGS
@given(data=st.data())
def test_the_index_agrees_with_asking_everyone(bucket_rows: int, data: st.DataObject) -> None:
    with mock.patch.object(shelves, "BUCKET_ROWS", bucket_rows):
        index: MatchIndex[int] = MatchIndex()
        plain = OneByOne()
        pool = data.draw(st.lists(predicates, min_size=1, max_size=25))
        for _ in range(data.draw(st.integers(1, 4))):
            for id_, predicate, adding in data.draw(
                st.lists(st.tuples(st.integers(0, 6), st.sampled_from(pool), st.sampled_from([True, True, False])))
            ):
                change = "add" if adding else "remove"
                assert getattr(index, change)(id_, predicate) is getattr(plain, change)(id_, predicate)
            row = data.draw(messages)
            for topic in TOPICS:
                assert index.match(topic, row) == plain.match_any([topic], row)
            several = data.draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3))
            assert index.match_any(several, row) == plain.match_any(several, row)
            assert len(index) == sum(map(len, plain.pairs.values()))


LEAVES = [
    "a = 1", "a = 2", "a = 'x'", "a = true", "a in (1, 'x')", "a in (0, 2, 2.5)", "a > 1", "a >= 1", "a < 2.5",
    "a <= 'x'", "a between 1 and 2", "a between 'x' and 'xz'", "a like 'x%'", "a like '%y'", "a != 1",
    "a not in (1, 2)", "a is null", "a is not null", "a = b", "a < true", "a not between 0 and 1",
]  # fmt: skip


def drawn_condition(rng: random.Random) -> str | None:
    """Of up to four leaves, each about some attribute."""
    leaves = [f"({re.sub('^a', rng.choice(NAMES), rng.choice(LEAVES))})" for _ in range(rng.randrange(5))]
    text = leaves.pop() if leaves else None
    for leaf in leaves:
        text = f"({text}) {rng.choice(['and', 'and', 'or'])} {leaf}"
    return text


@pytest.mark.parametrize("bucket_rows", [0, 2, 16])
@pytest.mark.parametrize("seed", range(4))
def test_a_crowded_index_agrees_with_asking_everyone_while_it_changes(seed: int, bucket_rows: int) -> None:
    rng = random.Random(seed)
    pool = [parse_predicate(rng.choice(["t", "t", "t", *FILTERS]), drawn_condition(rng)) for _ in range(150)]
    index: MatchIndex[int] = MatchIndex()
    plain = OneByOne()
    with mock.patch.object(shelves, "BUCKET_ROWS", bucket_rows):
        for leaving in (0.0, 0.1, 0.5, 0.9, 0.2):
            for _ in range(150):
                id_, predicate = rng.randrange(60), rng.choice(pool)
                change = "remove" if rng.random() < leaving else "add"
                assert getattr(index, change)(id_, predicate) is getattr(plain, change)(id_, predicate)
            for id_ in rng.sample(range(60), 10 if leaving == 0.9 else 0):
                assert index.remove_all(id_) == len(plain.pairs.pop(id_, []))
            for _ in range(12):
                row = {name: rng.choice([*CONSTANTS, "xyz", float("nan")]) for name in NAMES if rng.random() < 0.7}
                topics = rng.sample(TOPICS, rng.choice([1, 1, 2]))
                assert index.match_any(topics, row) == plain.match_any(topics, row)


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 6), predicates), max_size=25), messages)
def test_a_plan_tells_apart_what_needs_attributes(pairs: list[tuple[int, Predicate]], row: reference.Values) -> None:
    index: MatchIndex[int] = MatchIndex()
    for id_, predicate in pairs:
        index.add(id_, predicate)
    for topic in TOPICS:
        plan = index.plan(topic)
        if not plan.conditional:
            assert plan.match(row) == list(plan.always)
        unconditional = {id_ for id_, predicate in pairs if predicate.where is None and predicate.matches(topic, {})}
        assert set(plan.always) == unconditional
        assert set(plan.always) <= set(plan.match(row))


def test_an_index_that_lost_everything_keeps_nothing() -> None:
    with mock.patch.object(shelves, "BUCKET_ROWS", 1):
        index: MatchIndex[str] = MatchIndex()
        wheres = [
            "a = 1",
            "a = 1 and b = 2",
            "a = 1 and b > 2",
            "a > 1",
            "a in (1, 2)",
            "a like 'x%'",
            "a is null",
            None,
        ]
        pairs = [(f"{f}-{w}", parse_predicate(f, w)) for f in FILTERS for w in wheres]
        for id_, predicate in pairs:
            assert index.add(id_, predicate)
        for id_, _ in pairs:
            assert index.remove_all(id_) == 1
        assert len(index) == 0
        assert kept_by(index) == kept_by(MatchIndex())
        assert all(index.match(topic, {"a": 1, "b": 2}) == [] for topic in TOPICS)


def test_conditions_that_left_leave_nothing_behind_beside_those_that_stay() -> None:
    index: MatchIndex[int] = MatchIndex()
    index.add(0, parse_predicate("t", "a is null"))
    rng = random.Random(5)
    guests = [parse_predicate("t", f"a = 1 and ({drawn_condition(rng) or 'b > c'})") for _ in range(300)]
    for number, predicate in enumerate(guests, 1):
        index.add(number, predicate)
    for number, predicate in enumerate(guests, 1):
        index.remove(number, predicate)
    alone: MatchIndex[int] = MatchIndex()
    alone.add(0, parse_predicate("t", "a is null"))
    assert kept_by(index) == kept_by(alone)
    assert index.match("t", {}) == [0]


def test_ids_come_in_the_order_they_were_first_added_always_before_conditional() -> None:
    index: MatchIndex[str] = MatchIndex()
    index.add("late", parse_predicate("other"))
    for name in ("c", "a", "b"):
        index.add(name, parse_predicate("t", "x > 0"))
    index.add("sure", parse_predicate("t/#"))
    index.add("late", parse_predicate("+"))
    index.add("a", parse_predicate("+"))
    assert index.plan("t").always == ("late", "a", "sure")
    assert index.match("t", {"x": 1}) == ["late", "a", "sure", "c", "b"]
    index.remove_all("c")
    index.add("c", parse_predicate("t", "x > 0"))
    assert index.match("t", {"x": 1}) == ["late", "a", "sure", "b", "c"]
    assert index.predicates_of("late") == (parse_predicate("other"), parse_predicate("+"))


def test_a_plan_is_kept_until_something_changes_for_it() -> None:
    index: MatchIndex[int] = MatchIndex()
    index.add(1, parse_predicate("t", "x = 1"))
    index.add(2, parse_predicate("u"))
    plan = index.plan("t")
    assert index.plan("t") is plan
    index.add(3, parse_predicate("t", "x = 2"))
    assert index.plan("t") is plan
    assert plan.match({"x": 2}) == [3]
    index.add(4, parse_predicate("u"))
    assert index.plan("t") is plan
    index.add(4, parse_predicate("t"))
    assert index.plan("t") is not plan
    assert index.plan("t").always == (4,)
    index.add(5, parse_predicate("+"))
    assert index.plan("t").always == (4, 5)
    index.remove(4, parse_predicate("t"))
    assert index.plan("t").always == (5,)
    pair = index.plan_any(("t", "u"))
    assert index.plan_any(("t", "u")) is pair
    assert pair.always == (2, 4, 5)
    assert index.plan_any(("t",)) is index.plan("t")


def test_a_topic_that_turns_conditional_and_back_says_so() -> None:
    index: MatchIndex[int] = MatchIndex()
    assert not index.plan("t").conditional
    index.add(1, parse_predicate("t"))
    assert not index.plan("t").conditional
    index.add(1, parse_predicate("t", "x = 1"))
    assert index.plan("t").conditional
    assert index.match("t", {"x": 1}) == [1]
    index.remove(1, parse_predicate("t", "x = 1"))
    assert not index.plan("t").conditional


def test_remembered_plans_are_bounded_by_number_and_by_ids() -> None:
    def kept(limit: str, value: int) -> list[int]:
        """After each of twenty plans of ten ids."""
        index: MatchIndex[int] = MatchIndex()
        for number in range(10):
            index.add(number, parse_predicate("#"))
        found = []
        with mock.patch.object(index_module, limit, value):
            for number in range(20):
                assert len(index.plan(f"t{number}").always) == 10
                found.append(kept_by(index))
        return found

    for limit, value, plans in (("PLANS_MAX", 5, 5), ("PLAN_IDS_MAX", 30, 3), ("PLAN_IDS_MAX", 5, 1)):
        found = kept(limit, value)
        assert max(found) == found[plans - 1] > found[0] - (plans == 1), (limit, value)


class CountedLooks(dict[str, Any]):
    """Attributes that count how often somebody looks at one."""

    looks = 0

    def __getitem__(self, name: str) -> Any:
        self.looks += 1
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(name, default)


def test_few_conditions_are_tested_among_many() -> None:
    """Counted, not timed: of thousands of conditions on one topic only a handful are candidates."""
    index: MatchIndex[int] = MatchIndex()
    read: list[Condition] = []
    for number in range(1000):
        for text in (
            f"kind = 'trade' and symbol = 'S{number}'",
            f"kind = 'trade' and price between {number} and {number + 2}",
            f"kind = 'quote' and name like 'N{number:04}%'",
        ):
            index.add(len(read), parse_predicate("t", text))
            read.append(parse(text))
    rows: list[reference.Values] = [
        {"kind": "trade", "symbol": "S77", "price": 500.5},
        {"kind": "quote", "name": "N0500-x", "price": 7},
        {"kind": "other", "price": 7},
    ]
    looks: list[int] = []
    for row in rows:
        attributes = CountedLooks(row)
        index.match("t", attributes)
        looks.append(attributes.looks)
        assert index.match("t", row) == [n for n, condition in enumerate(read) if condition.matches(row)]
    assert looks[0] > 0 and max(looks) <= 100


def test_results_do_not_depend_on_the_hash_seed() -> None:
    program = """
from resprout.filters.index import FilterMap, MatchIndex
from resprout.filters.predicate import parse_predicate
index = MatchIndex()
for n in range(200):
    where = [None, f"s in ('a', 'b{n % 7}')", f"s > 'a' or k = {n % 3}", f"k between {n % 5} and 9"][n % 4]
    index.add(f"id{n * 37 % 200}", parse_predicate(["t/u", "t/+", "#", "t/#"][n % 3], where))
for n in range(0, 200, 3):
    index.remove_all(f"id{n}")
print([index.match("t/u", {"s": s, "k": k}) for s in ("a", "b1", "c") for k in range(5)])
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert "id" in outputs[0]


def test_a_topic_costs_one_lookup_for_each_placement_of_wildcards() -> None:
    """Before, each level of each placement cost a lookup: 31 times 64 for one identity."""
    filters: FilterMap[list[str]] = FilterMap(list)
    levels = ["a"] * 30
    for bits in range(64):
        some = ["+" if bits >> place & 1 else level for place, level in enumerate(levels)]
        filters.insert("/".join([*some, "+", "z"]))
        filters.insert("/".join([*some, "#"]))
        filters.insert("/".join(some))
    looked: list[str] = []
    for text, placement in filters.placements.items():
        placement.key_of = _noting(looked, text, placement.key_of)
    assert len(filters.matching("/".join([*levels, "new", "topic"]))) == 64, "those with #"
    assert len(looked) == 128 and len(set(looked)) == 128, "a placement with another number of levels is left out"


def test_filters_of_few_levels_cost_a_topic_a_bounded_number_of_lookups_whatever_they_are() -> None:
    """So no limit that all clients share is necessary for them."""
    filters: FilterMap[list[str]] = FilterMap(list)
    for count in range(1, SHALLOW_LEVELS + 1):
        for levels in itertools.product("+x", repeat=count):
            filters.insert("/".join(levels))
            filters.insert("/".join([*levels[1:], "#"])) if levels[0] == "+" else None
    assert filters.deep == 0 and len(filters.placements) == 2**9 - 2 - SHALLOW_LEVELS + 2**8 - 1
    looked: list[str] = []
    for text, placement in filters.placements.items():
        placement.key_of = _noting(looked, text, placement.key_of)
    most = 0
    for count in range(1, 32):
        looked.clear()
        filters.matching("/".join(["x"] * count))
        most = max(most, len(looked))
    assert most == 510
    filters.insert("x/x/x/x/x/x/x/x/+")
    assert filters.deep == 1
    filters.delete("x/x/x/x/x/x/x/x/+")
    assert filters.deep == 0


def _noting(looked: list[str], text: str, key_of: Callable[[list[str]], Any]) -> Callable[[list[str]], Any]:
    def noted(levels: list[str]) -> Any:
        looked.append(text)
        return key_of(levels)

    return noted


@pytest.mark.parametrize("seed", range(4))
def test_filters_are_found_and_forgotten_whatever_their_wildcards(seed: int) -> None:
    rng = random.Random(seed)
    texts = ["/".join(parts) for count in (1, 2, 3) for parts in itertools.product(["+", "a", "", "$a"], repeat=count)]
    texts += [f"{text}/#" for text in texts] + ["#"]
    topics = ["/".join(parts) for n in (1, 2, 3, 4) for parts in itertools.product(["a", "b", "", "$a"], repeat=n)]
    rng.shuffle(texts)
    filters: FilterMap[list[str]] = FilterMap(list)
    present: set[str] = set()
    for text in [*texts, *rng.sample(texts, len(texts))]:
        assert (filters.find(text) is not None) == (text in present)
        if text in present:
            filters.delete(text)
            present.remove(text)
        else:
            filters.insert(text).append(text)
            present.add(text)
        if rng.random() < 0.1:
            for topic in topics:
                found = [text for value in filters.matching(topic) for text in value]
                assert sorted(found) == sorted(one for one in present if topic_matches(one, topic))
    assert not filters.placements and not any(map(filters.matching, topics))
