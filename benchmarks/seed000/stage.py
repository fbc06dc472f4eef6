"""Runs of the two stacks in the virtual world, and what was said on the links between brokers meanwhile."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.core.contract import Effect, Transmit
from resprout.links.frames import Data, Goodbye, Hello, SessionWelcome
from resprout.scenario.load import load_scenario
from resprout.scenario.model import OptionValue, Scenario
from resprout.sim.network import Distances
from resprout.sim.nodes import Process
from resprout.sim.run import Run
from resprout.sim.world import World
from resprout.stacks.stack import find_stack
from resprout.trace.schema import Row
from resprout.wire.codec import Codec

ROOT: Final = Path(__file__).parents[2]

STACKS: Final = ("resprout", "ginger")

GINGER: Final[dict[str, OptionValue]] = {"total_degree": 3, "timer_us": 2_000_000, "max_hops": 3}
"""As the text of the experiments has them."""


def load(file: str, *overrides: str) -> Scenario:
    return load_scenario(file, overrides)


def on(stack: str, scenario: Scenario) -> Scenario:
    """The same scenario on one of the stacks, which have different options."""
    if stack == "ginger":
        return msgspec.structs.replace(scenario, stack=stack, options=GINGER)
    return msgspec.structs.replace(scenario, stack=stack)


class Traffic:
    """What crossed the links between brokers."""

    def __init__(self, frame_bytes: Callable[[Any], int]) -> None:
        self._frame_bytes = frame_bytes
        self.messages: Counter[str] = Counter()
        """By type."""
        self.frames = 0
        """That carry at least one message which is no sign of life."""
        self.bytes = 0
        """Of those frames, as the simulator reckons them."""
        self.signs_of_life = 0
        """Signs of life, and acknowledgements of the links that found no company."""

    def count(self, frame: Data[object]) -> None:
        said = [type(m).__name__ for m in frame.messages if not m.background]  # type: ignore[attr-defined]
        self.messages.update(said)
        if said:
            self.frames += 1
            self.bytes += self._frame_bytes(frame)
        else:
            self.signs_of_life += 1


class Played:
    """A run that is over."""

    def __init__(self, scenario: Scenario, rows: list[Row], traffic: Traffic, world: World) -> None:
        self.scenario = scenario
        self.rows = rows
        self.traffic = traffic
        self.world = world
        """As it was at the end."""

    def of(self, *kinds: str) -> list[Row]:
        return [row for row in self.rows if row.kind in kinds]


def play(scenario: Scenario) -> Played:
    run = Run(scenario, None, ())
    codec = Codec((Hello, SessionWelcome, Data, Goodbye), find_stack(scenario.stack).messages)
    traffic = listen(run, {broker.name for broker in scenario.brokers}, codec.frame_bytes)
    result = run.finish()
    if result.ended != "quiescent":
        raise RuntimeError(f"{scenario.name} on {scenario.stack}, seed {scenario.seed}: it did not come to rest")
    return Played(scenario, result.rows, traffic, run.world)


def listen(run: Run, brokers: set[str], frame_bytes: Callable[[Any], int]) -> Traffic:
    """Count what these brokers send each other in this run."""
    traffic = Traffic(frame_bytes)
    world = run.world
    perform = world.perform

    def overheard(process: Process, effects: Sequence[Effect]) -> None:
        if process.name in brokers:
            for effect in effects:
                if type(effect) is Transmit and type(effect.frame) is Data:
                    end = process.ends.get(effect.connection)
                    if end is not None and end.far.process.name in brokers:
                        traffic.count(effect.frame)
        perform(process, effects)

    world.perform = overheard  # type: ignore[method-assign]
    return traffic


def distances_in(scenario: Scenario) -> Distances:
    places = Distances()
    for broker in scenario.brokers:
        places.place(broker.name, broker.parent, broker.latency_us)
    for client in scenario.clients:
        places.place(client.name, client.broker, client.latency_us)
    return places


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1_000) * len(ordered) // 1_000) - 1)]
