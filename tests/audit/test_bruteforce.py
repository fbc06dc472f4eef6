"""On small traces, good and bad, the judge finds exactly what the definitions say."""

import random
from collections.abc import Collection
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.audit.timing import TIMING_RULES
from resprout.audit.verdict import RULES, Verdict
from resprout.core.guarantee import OrderScope, Promises, Reliability
from resprout.core.timing import DUE, EXPIRES, PUBLISHED
from resprout.trace.schema import Row
from tests.audit.bruteforce import CLOCKS_US, findings
from tests.audit.bruteforce_world import World, ident
from tests.audit.model import System
from tests.audit.mutations import MUTATIONS
from tests.audit.spoiling import MESSAGE, change, deliveries, exchanged, moved, renumbered
from tests.audit.timing_mutations import WALL_US
from tests.soak import cases

TOPICS = ("a", "a/b")
FILTERS = ("a", "a/b", "a/+", "a/#", "#")


ORDER = {
    "identity", "invented", "unasked", "twice", "position", "lost", "lost_told", "fifo", "causal", "barrier", "total",
    "tseq", "receipt",
}  # fmt: skip
ALL = Promises()
EACH_TOPIC = Promises(OrderScope.EACH_TOPIC)
PROBABLE = Promises(reliability=Reliability.PROBABLE, receipts=("accepted",))


def test_the_judge_agrees_on_arbitrary_traces_whatever_is_promised() -> None:
    kinds: dict[Promises, set[str]] = {promise: set() for promise in (ALL, EACH_TOPIC, PROBABLE)}
    weaker = {EACH_TOPIC: 0, PROBABLE: 0}
    tried = cases(250, 600)
    for seed in range(tried):
        rows = arbitrary_trace(random.Random(seed))
        expected = {promise: agree(rows, f"arbitrary {seed}", promise) for promise in kinds}
        for promise, found in expected.items():
            kinds[promise] |= {finding[0] for finding in found}
        for promise in weaker:
            weaker[promise] += expected[promise] < expected[ALL]
    assert kinds == {ALL: ORDER, EACH_TOPIC: ORDER, PROBABLE: ORDER - {"lost", "lost_told"}}
    assert min(weaker.values()) > tried // 12, "less is promised, so less can be broken"


@pytest.mark.parametrize("seed", range(cases(12, 24)))
def test_the_judge_agrees_on_spoiled_traces(seed: int) -> None:
    rng = random.Random(seed)
    rows = System(seed, clients=3, claims=seed % 2 == 0).run(70)
    agree(rows, f"good {seed}")
    for _ in range(6):
        rows = disturbed(rows, rng)
        agree(rows, f"disturbed {seed}")
        agree(rows, f"disturbed {seed}", EACH_TOPIC)


def test_the_judge_agrees_on_delayed_and_expiring_messages() -> None:
    kinds: set[str] = set()
    for seed in range(cases(250, 600)):
        rng = random.Random(seed)
        rows = with_times(arbitrary_trace(rng), rng)
        for clocks_us in (0, 3):
            kinds |= {finding[0] for finding in agree(rows, f"timed {seed}", clocks_us=clocks_us)}
    assert kinds == {*ORDER, *TIMING_RULES}


@pytest.mark.parametrize("seed", range(cases(12, 24)))
def test_the_judge_agrees_on_messages_that_are_early_or_have_expired(seed: int) -> None:
    rng = random.Random(seed)
    rows = System(seed, clients=3, claims=seed % 2 == 0).run(70)
    broken: set[str] = set()
    for name in [name for name, (rule, _) in MUTATIONS.items() if rule in TIMING_RULES] * 3:
        rows = disturbed(MUTATIONS[name][1](rows, rng) or rows, rng)
        broken |= {finding[0] for finding in agree(rows, f"{name} {seed}")}
    assert broken & set(TIMING_RULES)


def agree(
    rows: list[Row],
    what: str,
    promise: Promises = ALL,
    clocks_us: int = CLOCKS_US,
    rules: Collection[str] = tuple(RULES),
) -> set[Any]:
    """What both find of these rules."""
    verdict = judge(rows, promise=promise, clocks_us=clocks_us)
    verdict = msgspec.structs.replace(verdict, anomalies=[a for a in verdict.anomalies if a.rule in rules])
    expected = {finding for finding in findings(rows, promise, clocks_us) if finding[0] in rules}
    found = as_findings(verdict, World(rows, promise), expected)
    assert found == expected, what
    return expected


def as_findings(verdict: Verdict, world: World, expected: set[Any]) -> set[tuple[Any, ...]]:
    """What the judge said, in the form of the definitions."""
    names = names_of(world)
    knots = [finding[1] for finding in expected if finding[0] == "total"]
    found: set[tuple[Any, ...]] = set()
    for a in verdict.anomalies:
        first = names[a.messages[0]] if a.messages else ("", 0, "", 0)
        if a.rule == "total":
            knot = next((knot for knot in knots if first in knot), None)
            assert knot is not None and all(names[name] in knot for name in a.messages), a
            assert ("total", knot) not in found, "one anomaly for each knot"
            found.add(("total", knot))
        elif a.rule == "barrier":
            pair = a.explanation.rpartition("(all name ")[2].rstrip(")").rpartition("#")
            found.add(("barrier", first, (pair[0], pair[2])))
        else:
            if a.rule == "causal":
                assert_explains(world, a.subscriber, [names[name] for name in a.messages])
            found.add((a.rule, a.subscriber, first, a.time_us))
    return found


def assert_explains(world: World, subscriber: str, messages: list[Any]) -> None:
    """The chain of a causal anomaly is a chain: cause, steps, violation, each in the past of the next."""
    violation, cause, *steps = messages
    chain = [cause, *steps, violation]
    for before, after in pairwise(chain):
        assert before in world.past(after)
    assert cause[2] == "ordered"


def names_of(world: World) -> dict[str, Any]:
    ids = {ident(row) for row in world.rows if row.publisher is not None}
    incarnations: dict[Any, set[Any]] = {}
    for id in world.published:
        incarnations.setdefault(id[0], set()).add(id[1])
    names = {}
    for id in ids:
        publisher, incarnation, stream, seq = id
        shown = f".{incarnation}" if len(incarnations.get(publisher, ())) > 1 else ""
        names[f"{publisher}{shown}:{'e' if stream == 'eventual' else ''}{seq}"] = id
    return names


# -- traces -----------------------------------------------------------------------------------------------------------


def arbitrary_trace(rng: random.Random) -> list[Row]:
    """Rows that may happen in any order at all, with just enough sense to reach every rule."""
    clients = ["p", "q", "r"][: rng.choice((2, 3))]
    rows: list[Row] = []
    seqs: dict[Any, int] = {}
    lives = dict.fromkeys(clients, 0)
    positions = dict.fromkeys(clients, 0)
    now = 0
    for client in clients:
        if rng.random() < 0.8:
            named = {"filter": rng.choice(FILTERS)}
            rows += [Row(time_us=0, node=client, kind=kind, **named) for kind in ("subscribe", "subscribed")]  # type: ignore[arg-type]
    for _ in range(rng.randrange(8, 45)):
        now += rng.choice((0, 1))
        client = rng.choice(clients)
        act = rng.random()
        made = [row for row in rows if row.kind == "publish"]
        if act < 0.35 or not made:
            rows.append(_publication(rng, now, client, lives[client], seqs))
        elif act < 0.80:
            row = rng.choice(made)
            columns = {name: getattr(row, name) for name in MESSAGE}
            if rng.random() < 0.03:
                columns["seq"] = (row.seq or 0) + 1
            if rng.random() < 0.02:
                columns["topic"] = rng.choice(TOPICS)
            if row.guarantee == "total" and rng.random() < 0.5:
                columns["tseq"] = rows.index(row)
            if rng.random() < 0.04:
                positions[client] = rng.randrange(6)
            rows.append(Row(time_us=now, node=client, kind="deliver", position=positions[client], **columns))
            positions[client] += 1
        elif act < 0.90:
            row = rng.choice(made)
            word = rng.choice(("accepted", "safe", "delivered", "delivered", "failed"))
            kind = "refused" if rng.random() < 0.1 else "receipt"
            rows.append(
                Row(
                    time_us=now, node=row.node, kind=kind, publisher=row.publisher, incarnation=row.incarnation,
                    stream=row.stream, seq=(row.seq or 0) + (rng.random() < 0.1),
                    receipt=word if kind == "receipt" else None,
                )
            )  # fmt: skip
        elif act < 0.91:
            rows.append(Row(time_us=now, node=client, kind="session_lost", detail="it could not be carried on"))
        elif act < 0.96:
            kind = rng.choice(("subscribe", "subscribed", "subscribed", "unsubscribe", "unsubscribed", "refused"))
            where = rng.choice((None, None, "amount > 5"))
            rows.append(Row(time_us=now, node=client, kind=kind, filter=rng.choice(FILTERS), where=where))
        else:
            kind = rng.choice(("crash", "recover", "leave", "freeze", "unfreeze"))
            rows.append(Row(time_us=now, node=client, kind=kind))
            if kind in ("crash", "leave"):
                lives[client] += 1
                positions[client] = 0
    if rng.random() < 0.8:
        rows.append(Row(time_us=now, node="world", kind=rng.choice(("quiescent", "quiescent", "timeout"))))
    return rows


def with_times(rows: list[Row], rng: random.Random) -> list[Row]:
    """Some messages are delayed or expire, and clients are told, rightly or not, that some have expired."""
    fresh: list[Row] = []
    made: list[Row] = []
    for row in rows:
        if row.kind == "publish" and rng.random() < 0.6:
            times = {name: str(WALL_US + rng.randrange(12)) for name in (DUE, EXPIRES) if rng.random() < 0.5}
            if rng.random() < 0.9:
                times[PUBLISHED] = str(WALL_US)
            row = change(row, attributes={**(row.attributes or {}), **times})
        made += [row] if row.kind == "publish" else []
        fresh.append(row)
        if made and row.node != "world" and rng.random() < 0.1:
            one = rng.choice(made)
            seq = (one.seq or 0) + (rng.random() < 0.05)
            fresh.append(
                Row(
                    time_us=row.time_us, node=rng.choice(("p", "q", "r")), kind="expired", publisher=one.publisher,
                    incarnation=one.incarnation, stream=one.stream, seq=seq,
                )
            )  # fmt: skip
    return fresh


def _publication(rng: random.Random, now: int, client: str, life: int, seqs: dict[Any, int]) -> Row:
    guarantee = rng.choice(("eventual", "fifo", "causal", "causal", "total", "total"))
    stream = "eventual" if guarantee == "eventual" else "ordered"
    seq = seqs.get((client, stream), 0) + 1
    seqs[client, stream] = seq
    if rng.random() < 0.03:
        seq = max(1, seq - rng.randrange(3))
    return Row(
        time_us=now, node=client, kind="publish", publisher=client, incarnation=life, stream=stream, seq=seq,
        topic=rng.choice(TOPICS), guarantee=guarantee,
        keys=rng.choice(((), ("k",), ("k",), ("k", "l"), ("a#k", "m"))),
        attributes=rng.choice((None, {"amount": "3"}, {"amount": "9"})),
    )  # fmt: skip


def disturbed(rows: list[Row], rng: random.Random) -> list[Row]:
    """A trace with one more thing wrong with it, or one more that looks so."""
    if rng.random() < 0.4:
        apart = ("durable", "log_", "mqtt_", "kv_", "retained", "early", "expired")
        mutate = MUTATIONS[rng.choice(sorted(n for n in MUTATIONS if not MUTATIONS[n][0].startswith(apart)))][1]
        try:
            return mutate(rows, rng) or rows
        except (KeyError, ValueError):  # made for good traces: on others a mutation may find no hold
            return rows
    here = rng.choice([h for h in deliveries(rows).values() if len(h) > 1] or [[]])
    if not here:
        return rows
    one, other = sorted(rng.sample(here, 2))
    what = rng.random()
    if what < 0.4:
        return exchanged(rows, one, other)
    if what < 0.7:
        return renumbered(moved(rows, one, other), rows[one].node)
    return [row if i != one else change(row, position=rows[other].position) for i, row in enumerate(rows)]
