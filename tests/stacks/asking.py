"""Runs in which somebody asks a client for something at a given time, and hears what the client is told."""

from collections.abc import Sequence
from typing import Any

import msgspec

from resprout.core.contract import Answer, Deliver
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultSpec, Scenario
from resprout.sim.nodes import Above, Process
from resprout.sim.run import Run
from tests.stacks.stage import Played, Watch


class Asked(msgspec.Struct, frozen=True):
    """To a client, at a time."""

    at_us: int
    client: str
    request: Any


class News(msgspec.Struct, frozen=True):
    time_us: int
    client: str
    body: Any


class _Ear:
    """Above a client: passes everything on to its application, and remembers what it was told."""

    def __init__(self, run: Run, above: Above, heard: list[News]) -> None:
        self._run = run
        self._above = above
        self._heard = heard

    def began(self, process: Process) -> None:
        self._above.began(process)

    def given(self, process: Process, effect: Deliver | Answer) -> None:
        if isinstance(effect, Answer):
            self._heard.append(News(self._run.world.now_us, process.name, effect.body))
        self._above.given(process, effect)


class Told(Played):
    """A run that is over, and what its clients were told in it."""

    def __init__(self, scene: Scenario, run: Run, watch: Watch, heard: list[News]) -> None:
        super().__init__(scene, run, watch, run.finish())
        self.heard = heard

    def news(self, kind: type, client: str | None = None) -> list[News]:
        return [news for news in self.heard if isinstance(news.body, kind) and client in (None, news.client)]


def ask(scene: Scenario, faults: Sequence[FaultSpec], asked: Sequence[Asked]) -> Told:
    watch = Watch()
    run = Run(msgspec.structs.replace(scene, faults=(*scene.faults, *faults)), watch, ())
    watch.run = run
    heard: list[News] = []

    def listen(_: None, __: None) -> None:
        for client in scene.clients:
            node = run.world.nodes[client.name]
            assert node.above is not None
            node.above = _Ear(run, node.above, heard)

    def put(one: Asked, _: None) -> None:
        process = run.world.nodes[one.client].process
        assert process is not None
        run.world.request(process, one.request)

    run.world.at(0, listen)
    for one in asked:
        run.world.at(one.at_us, put, one)
    return Told(scene, run, watch, heard)


def two_kinds(parents: dict[str, str | None], homes: Sequence[str], time_limit: str = "120s") -> Scenario:
    """At each of these brokers `b7` a client `t7` that publishes nothing but totals, and `p7` that publishes everything
    else, on other topics: all of them every 600 ms or so from 0.5 s on, for 12 s. They all subscribe to everything."""
    lines = [f'seed = 7\ntime_limit = "{time_limit}"']
    for name, parent in parents.items():
        above = "" if parent is None else f'parent = "{parent}"\n'
        lines.append(f'[[broker]]\nname = "{name}"\n{above}latency = "3ms"')
    for home in homes:
        lines += [
            f'[[client]]\nname = "{letter}{home[1:]}"\nbroker = "{home}"\nlatency = "2ms"\nsubscribe = ["a/#"]'
            for letter in "tp"
        ]
    for letter, topic, mix in (("t", "a/x", "total = 1.0"), ("p", "a/y", "eventual = 0.3, fifo = 0.4, causal = 0.3")):
        clients = ", ".join(f'"{letter}{home[1:]}"' for home in homes)
        lines.append(
            f'[[workload]]\nkind = "random"\nclients = [{clients}]\ntopics = ["{topic}"]\nkeys = 2\noperations = 20\n'
            f'mix = {{ {mix} }}\ninterval = "600ms"\nstart = "500ms"'
        )
    return parse_scenario("\n".join(lines))
