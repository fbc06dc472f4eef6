"""What one message costs the protocol of brokers: no links, no frames, no event loop, no simulator.

Fifty publishers publish one message at a time, and one subscriber reads them: at one broker, and at the other end of
three in a row. The run is recorded once, and what each broker heard is then given to fresh brokers again. The yardstick
is a hundred calls of an empty function.
"""

import copy
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from benchmarks.measure import Measure, interleaved
from resprout.core.contract import Event
from resprout.scenario.model import BrokerSpec, ClientSpec, Mix, RandomOptions, Scenario, SubscriptionSpec, WorkloadSpec
from resprout.sim.run import run_scenario
from resprout.stacks.resprout.broker import ResproutBroker

PUBLISHERS = 50
MESSAGES_EACH = 20
CALLS = 1_000_000


class Recorded:
    """One broker's life: what it was made with, and all that it heard."""

    def __init__(self, seat: Any, options: Any, rng: random.Random) -> None:
        self.seat = seat
        self.options = options
        self.rng = copy.deepcopy(rng)
        self.began_us = 0
        self.heard: list[tuple[Event, int]] = []


def run(quick: bool = False) -> list[Measure]:
    rounds = 3 if quick else 9
    measures = []
    for brokers, name in ((1, "one broker"), (3, "three brokers in a row")):
        lives = record(brokers)
        messages, calls = interleaved(rounds, lambda lives=lives: replay(lives), call_often)  # type: ignore[misc]
        measures.append(Measure(f"lone messages through {name}", messages, "msg/s", "a hundred calls", calls))
    return measures


def record(brokers: int) -> list[Recorded]:
    lives: dict[int, Recorded] = {}
    make, start, step = ResproutBroker.__init__, ResproutBroker.start, ResproutBroker.step

    def made(self: Any, seat: Any, options: Any, rng: random.Random) -> None:
        lives[id(self)] = Recorded(seat, options, rng)
        make(self, seat, options, rng)

    def started(self: Any, now_us: int) -> Any:
        lives[id(self)].began_us = now_us
        return start(self, now_us)

    def stepped(self: Any, event: Event, now_us: int) -> Any:
        lives[id(self)].heard.append((event, now_us))
        return step(self, event, now_us)

    patched: dict[str, Callable[..., Any]] = {"__init__": made, "start": started, "step": stepped}
    for name, function in patched.items():
        setattr(ResproutBroker, name, function)
    try:
        run_scenario(_scenario(brokers))
    finally:
        for name, original in (("__init__", make), ("start", start), ("step", step)):
            setattr(ResproutBroker, name, original)
    return list(lives.values())


def replay(lives: list[Recorded]) -> int:
    for life in lives:
        broker = ResproutBroker(life.seat, life.options, copy.deepcopy(life.rng))
        broker.start(life.began_us)
        step = broker.step
        for event, now_us in life.heard:
            step(event, now_us)
    return PUBLISHERS * MESSAGES_EACH


def call_often() -> int:
    for _ in range(CALLS):
        _nothing()
    return CALLS // 100


def _nothing() -> None:
    pass


def _scenario(brokers: int) -> Scenario:
    names = [f"b{number}" for number in range(brokers)]
    publishers = tuple([f"p{number}" for number in range(PUBLISHERS)])
    one_by_one = WorkloadSpec(
        "random", publishers, ("t",), keys=1, operations=MESSAGES_EACH, mix=Mix(causal=1.0), payload=32,
        start_us=5_000_000, options=RandomOptions(keys_max=0, foreign_keys=0.0, attributes=False),
    )  # fmt: skip
    return Scenario(
        name="lone messages",
        stack="resprout",
        seed=1,
        brokers=(BrokerSpec("b0"), *[BrokerSpec(name, above, 1_000) for above, name in pairwise(names)]),
        clients=(
            *[ClientSpec(name, "b0", 100, ()) for name in publishers],
            ClientSpec("s", names[-1], 100, (SubscriptionSpec("t"),)),
        ),
        workloads=(one_by_one,),
        faults=(),
        time_limit_us=120_000_000,
    )
