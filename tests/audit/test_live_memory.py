"""What the live judge remembers: little, and enough."""

import random
from itertools import islice

import msgspec
import pytest

from resprout.audit.live import presence
from resprout.audit.live.judge import LiveJudge
from resprout.audit.live.memory import VERSION, LiveOptions
from resprout.audit.verdict import Anomaly
from resprout.trace.schema import Row
from tests.audit.live_comparison import EVER, watched
from tests.audit.live_runs import long_clean_run
from tests.audit.model import System, good_traces
from tests.audit.mutations import MUTATIONS
from tests.audit.test_bruteforce import disturbed
from tests.audit.trace_builder import TraceBuilder

SECOND = 1_000_000
SHORT = LiveOptions(lateness_us=20_000, grace_us=50_000, linger_us=100_000, horizon_us=2 * SECOND)


def slowed(rows: list[Row], step_us: int = 1000) -> list[Row]:
    """Every row at a time of its own."""
    return [msgspec.structs.replace(row, time_us=place * step_us) for place, row in enumerate(rows)]


@pytest.mark.parametrize("horizon_us", [20_000, 100_000, SECOND])
def test_a_short_memory_raises_no_false_alarm(horizon_us: int) -> None:
    options = LiveOptions(lateness_us=3_000, grace_us=5_000, linger_us=min(10_000, horizon_us), horizon_us=horizon_us)
    for seed, rows in good_traces(0, 24):
        assert watched(slowed(rows), options, restarts=seed % 2 == 0) == [], seed


def test_what_it_remembers_of_a_long_run_does_not_grow() -> None:
    judge = LiveJudge(SHORT)
    rows = long_clean_run(6000)
    sizes: list[int] = []
    while not judge.ended:
        assert judge.take(list(islice(rows, 1000))) == []
        if not judge.ended:
            sizes.append(len(judge.state()))
    assert judge.counts["publications"] == 6000
    assert len(sizes) > 20
    half = len(sizes) // 2
    assert max(sizes[half:]) < 1.3 * max(sizes[2:half])


def test_a_life_of_deaths_and_returns_is_forgotten() -> None:
    judge = LiveJudge(SHORT)
    now = 0
    sizes: list[int] = []
    for life in range(400):
        rows = [
            Row(time_us=now + 1, node="c0", kind="subscribed", filter=f"own/{life}"),
            *(
                Row(
                    time_us=now + 2 + n, node="c0", kind="publish", publisher="c0", incarnation=life, stream="ordered",
                    seq=n + 1, topic=f"own/{life}", guarantee="causal", keys=(),
                )
                for n in range(3)
            ),
            *(
                Row(
                    time_us=now + 9 + n, node="c0", kind="deliver", publisher="c0", incarnation=life, stream="ordered",
                    seq=n + 1, position=n,
                )
                for n in range(3)
            ),
            Row(time_us=now + 20, node="c0", kind="crash"),
        ]  # fmt: skip
        now += SECOND
        assert judge.take(rows) == []
        sizes.append(len(judge.state()))
    assert max(sizes[200:]) < 1.3 * max(sizes[10:200])


@pytest.mark.parametrize(
    "name", ["swap", "invert", "duplicate", "pass_a_barrier", "disagree_on_totals", "forge", "drop"]
)
def test_rows_that_come_out_of_order_within_the_lateness_are_judged_the_same(name: str) -> None:
    rule, mutate = MUTATIONS[name]
    noticed = 0
    for seed, rows in good_traces(1000, 8):
        spoiled = mutate(rows, random.Random(seed))
        if spoiled is None:
            continue
        in_order = slowed(spoiled)
        rng = random.Random(seed)
        arrival = sorted(in_order[:-1], key=lambda row: row.time_us + rng.randrange(30_000))
        options = LiveOptions(lateness_us=30_000, grace_us=EVER, linger_us=EVER, horizon_us=EVER)
        found = watched([*arrival, in_order[-1]], options)
        assert by_time(found) == by_time(watched(in_order, options)), seed
        noticed += rule in {anomaly.rule for anomaly in found}
    assert noticed >= 2


def test_a_row_behind_the_watermark_is_counted_and_judged() -> None:
    run = TraceBuilder()
    run.subscribe("s", "a")
    run.publish("c:1", "a", "fifo")
    run.deliver("s", "c:1")
    rows = slowed(run.quiescent(), SECOND)
    judge = LiveJudge(LiveOptions(lateness_us=SECOND // 2))
    note = Row(time_us=9 * SECOND, node="b", kind="note")
    found = [*judge.take(rows[:3]), *judge.take([note]), *judge.take(rows[3:])]
    assert found == []
    assert judge.counts["late"] == 2
    assert judge.counts["deliveries"] == 1
    assert judge.ended == "quiescent"


def test_the_state_of_a_judge_can_be_read_by_its_own_version_only() -> None:
    state = LiveJudge().state()
    assert LiveJudge.from_state(state).state() == state
    with pytest.raises(ValueError, match="no state of a live judge"):
        LiveJudge.from_state(b"what is this")
    other = msgspec.msgpack.encode((VERSION + 1, ["something new"]))
    with pytest.raises(ValueError, match=f"version {VERSION + 1}"):
        LiveJudge.from_state(other)


def test_a_repetition_of_what_is_forgotten_is_noticed() -> None:
    run = TraceBuilder()
    run.subscribe("s", "a")
    run.publish("c:1", "a", "fifo")
    run.deliver("s", "c:1")
    judge = LiveJudge(SHORT)
    assert judge.take(run.rows) == []
    assert judge.take([Row(time_us=10 * SECOND, node="b", kind="note")]) == []
    again = msgspec.structs.replace(run.rows[-1], time_us=11 * SECOND, position=1)
    found = judge.take([again, Row(time_us=20 * SECOND, node="b", kind="note")])
    assert [anomaly.explanation for anomaly in found] == ["s delivered c:1 at 1, which it had delivered before"]


@pytest.mark.parametrize("comes", [True, False])
def test_what_is_missing_at_the_horizon_is_lost_only_when_it_never_comes(comes: bool) -> None:
    run = TraceBuilder()
    run.subscribe("s", "a")
    run.publish("c:e1", "a", "eventual")
    judge = LiveJudge(SHORT)
    found = judge.take([*run.rows, Row(time_us=60 * SECOND, node="b", kind="note")])
    run.deliver("s", "c:e1")
    late = msgspec.structs.replace(run.rows[-1], time_us=61 * SECOND)
    found += judge.take([late] if comes else [])
    found += judge.take([Row(time_us=62 * SECOND, node="world", kind="quiescent")])
    assert [anomaly.rule for anomaly in found] == ([] if comes else ["lost"])
    assert judge.counts.get("beyond_horizon", 0) == comes


def test_a_way_through_what_was_forgotten_since_is_told_as_that() -> None:
    """Ways from a cause are searched once; when the next dependent is told, steps of it may be gone."""
    options = LiveOptions(lateness_us=0, grace_us=8, linger_us=10, horizon_us=60)
    rng, rows = random.Random(3), System(3, clients=3, claims=False).run(70)
    told: list[Anomaly] = []
    for _ in range(5):
        rows = disturbed(rows, rng)
        told += watched(rows, options)
    assert any("through publications that are forgotten" in anomaly.explanation for anomaly in told)


def test_intervals_are_sets() -> None:
    rng = random.Random(1)
    for _ in range(200):
        numbers = [rng.randrange(60) for _ in range(40)]
        held: list[int] = []
        for number in numbers:
            presence.add_number(held, number)
        assert [n for n in range(62) if presence.has_number(held, n)] == sorted(set(numbers))
        assert held == sorted(held)


def test_intervals_in_many_pieces_forget_the_lowest() -> None:
    held: list[int] = []
    for number in range(0, 1000, 2):
        presence.add_number(held, number)
    assert len(held) == 2 * presence.PIECES_MAX
    assert presence.has_number(held, 998)
    assert not presence.has_number(held, 0)


def by_time(anomalies: list[Anomaly]) -> list[Anomaly]:
    return sorted(anomalies, key=lambda a: (a.time_us, a.rule, a.subscriber, a.messages, a.explanation))
