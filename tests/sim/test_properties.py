"""Whatever is asked of the world: timers against a plain model, and frames in order through every mishap."""

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.contract import CancelTimer, SetTimer, Transmit
from tests.sim.puppets import Bell, Heartbeat, Village
from tests.soak import cases

HOUR_US = 3_600_000_000
RUNS = settings(max_examples=cases(50, 150), deadline=None, derandomize=True)

times = st.integers(0, 40)
timer_calls = st.lists(
    st.tuples(times, st.sampled_from("xyz"), st.one_of(st.none(), st.integers(0, 60))), max_size=25
).map(lambda calls: sorted(calls, key=lambda call: call[0]))


def rings_of_a_plain_model(calls: list[tuple[int, str, int | None]]) -> list[tuple[int, str]]:
    """Step by step through every microsecond: at each, first what is asked, then what is due."""
    due: dict[str, int] = {}
    rings = []
    for now in range(120):
        for at, name, when in calls:
            if at == now:
                if when is None:
                    due.pop(name, None)
                else:
                    due[name] = max(when, now)
        for name in sorted(name for name, when in due.items() if when == now):
            rings.append((now, name))
            del due[name]
    return rings


@RUNS
@given(timer_calls)
def test_timers_ring_as_in_a_plain_model_and_the_run_ends_with_the_last_of_them(
    calls: list[tuple[int, str, int | None]],
) -> None:
    village = Village("a")
    village.pull("a", SetTimer(Heartbeat(), 10_000))
    for at, name, when in calls:
        effect = CancelTimer(Bell(name)) if when is None else SetTimer(Bell(name), when)
        # What is asked at an instant comes before what rings at it: as in the model, and unlike in a real run.
        village.world.at(at, lambda effect, _: village.pull("a", effect), effect)
    assert village.world.run(HOUR_US) == "quiescent"
    rings = sorted((time, timer.name) for time, timer in village.rings("a") if isinstance(timer, Bell))
    expected = rings_of_a_plain_model(calls)
    assert rings == expected
    assert village.world.now_us == max([0, *(at for at, _, _ in calls), *(time for time, _ in expected)])


mishaps = st.lists(
    st.tuples(times, st.sampled_from(["freeze", "unfreeze", "crash", "send", "send", "send"]), st.sampled_from("ab")),
    max_size=20,
).map(lambda steps: sorted(steps, key=lambda step: step[0]))


@RUNS
@given(mishaps, st.integers(0, 3), st.booleans())
def test_frames_arrive_in_order_and_without_gaps_whatever_happens(
    steps: list[tuple[int, str, str]], seed: int, narrow: bool
) -> None:
    village = Village("", seed=seed, size_of=lambda frame: 5)
    village.settle("a", None, 0, bandwidth_bps=8_000_000 if narrow else None)
    village.settle("b", "a", 10)
    connection = village.link("a", "b")
    begin = village.world.now_us
    sent = {"a": 0, "b": 0}

    def do(what: str, name: str) -> None:
        if what != "send":
            getattr(village.faults, what)(name)
        elif village.world.nodes[name].process is not None and village.process(name).step is not None:
            village.pull(name, Transmit(connection, sent[name]))
            sent[name] += 1

    for at, what, name in steps:
        village.world.at(begin + at, do, what, name)
    assert village.world.run(HOUR_US) == "quiescent"
    for receiver, sender in (("a", "b"), ("b", "a")):
        frames = [frame for _, frame in village.frames(receiver)]
        assert frames == list(range(len(frames)))
        assert len(frames) <= sent[sender]
        if not any(what in ("crash", "freeze") for _, what, _ in steps):
            assert len(frames) == sent[sender]
