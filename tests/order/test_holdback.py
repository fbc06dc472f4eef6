"""The hold-back queue, alone and beside one that searches everything after every step."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout_lab.blocks.causal_order import HoldBack
from tests.soak import cases

Needs = dict[str, int]


class Stage:
    """Items are (name, what each source must have reached); sources have counts."""

    def __init__(self, items_max: int = 100) -> None:
        self.counts: dict[str, int] = {}
        self.tests = 0
        self.queue: HoldBack[str, tuple[str, Needs]] = HoldBack(self.missing, items_max)

    def missing(self, item: tuple[str, Needs]) -> tuple[str, int] | None:
        self.tests += 1
        return next(((s, at) for s, at in item[1].items() if at > self.counts.get(s, 0)), None)

    def put(self, name: str, **needs: int) -> bool:
        return self.queue.put((name, needs))

    def reach(self, source: str, at: int) -> None:
        self.counts[source] = at
        self.queue.reached(source, at)

    def taken(self) -> list[str]:
        names = []
        while (item := self.queue.take()) is not None:
            names.append(item[0])
        return names


def test_what_needs_nothing_comes_at_once_and_in_order() -> None:
    stage = Stage()
    stage.put("x")
    stage.put("y")
    assert len(stage.queue) == 2 and stage.taken() == ["x", "y"] and len(stage.queue) == 0


def test_an_item_waits_until_everything_that_it_needs_is_there() -> None:
    stage = Stage()
    stage.put("x", a=2, b=1)
    assert stage.taken() == []
    stage.reach("a", 2)
    assert stage.taken() == []
    stage.reach("b", 5)
    assert stage.taken() == ["x"]


def test_those_that_may_be_delivered_come_in_the_order_in_which_they_were_put() -> None:
    stage = Stage()
    stage.put("late", a=1)
    stage.put("first", b=1)
    stage.put("second", b=1)
    stage.reach("b", 1)
    stage.reach("a", 1)
    assert [name for name, _ in stage.queue] == ["late", "first", "second"]
    assert stage.taken() == ["late", "first", "second"]


def test_what_waits_for_something_else_is_not_looked_at() -> None:
    stage = Stage(2_000)
    for number in range(1_000):
        stage.put(f"x{number}", a=number + 2)
    stage.put("y", b=1)
    stage.tests = 0
    stage.reach("a", 1)
    stage.reach("c", 1)
    stage.reach("b", 1)
    assert stage.tests == 1 and stage.taken() == ["y"]
    stage.reach("a", 11)
    assert stage.tests == 11 and stage.taken() == [f"x{number}" for number in range(10)]


def test_what_does_not_fit_is_not_kept_and_there_is_room_again_when_something_is_taken() -> None:
    stage = Stage(items_max=2)
    assert stage.put("x", a=1) and stage.put("y")
    assert not stage.queue.has_room and not stage.put("z", a=1)
    assert stage.taken() == ["y"]
    assert stage.put("z") and stage.taken() == ["z"]


def test_there_is_always_room_for_what_may_be_delivered_at_once() -> None:
    """Seed 310027 of `locamu`: the very message that all others waited for found no room, again and again."""
    stage = Stage(items_max=1)
    assert stage.put("x", a=1)
    assert stage.put("y") and stage.taken() == ["y"]


SOURCES = ("a", "b", "c", "d")
Steps = list[tuple[bool, int, int]]


@settings(max_examples=cases(70, 200), deadline=None, derandomize=True)
@given(st.integers(0, 1 << 32), st.integers(1, 80))
def test_it_delivers_when_one_that_searches_everything_does(seed: int, steps: int) -> None:
    rng = Random(seed)
    stage = Stage()
    rescanned: list[tuple[str, Needs]] = []
    tests_max = 0
    for number in range(steps):
        if rng.random() < 0.5:
            needs = {source: rng.randint(1, 12) for source in SOURCES if rng.random() < 0.5}
            tests_max += 1 + len(needs)
            stage.put(str(number), **needs)
            rescanned.append((str(number), needs))
        else:
            source = rng.choice(SOURCES)
            stage.reach(source, stage.counts.get(source, 0) + rng.randint(0, 3))
        due = [name for name, needs in rescanned if all(stage.counts.get(s, 0) >= at for s, at in needs.items())]
        rescanned = [item for item in rescanned if item[0] not in due]
        assert stage.taken() == due
        assert [name for name, _ in stage.queue] == [name for name, _ in rescanned]
        assert len(stage.queue) == len(rescanned)
    assert stage.tests <= tests_max, "once for each thing that it waits for, and once more"
