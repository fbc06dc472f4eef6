"""How far a reader walks: which files and calls one publication, or one repair, takes through the brokers.

    python -m tests.walks resprout publication
    python -m tests.walks ginger repair

Four brokers, b1 below b0, b2 and b3 below b1; a publisher at b0, a reader at b2. Either the publisher publishes once,
and everything until its last receipt is counted; or b1 crashes, and everything until the last repair is over. Counted
is what the brokers' steps call in the pure floors: functions, without comprehensions and lambdas, and without the steps
that only give signs of life. Lines are those of the functions, each once; the deepest call is so many below the driver.
[docs/walks.md](../docs/walks.md) has what came out.
"""

import argparse
import ast
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import resprout
from resprout.core.contract import Received, TimerFired
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
)  # fmt: skip
from resprout.scenario.workload_options import RandomOptions
from resprout.sim.run import Run
from resprout.stacks.registry import find_stack

SOURCE: Final = str(Path(resprout.__file__).parent) + "/"
FLOORS: Final = ("core/", "filters/", "order/", "spread/", "overlay/", "replicas/", "edge/", "stacks/")
SIGNS_OF_LIFE: Final = ("Ping", "Pong", "Tell", "Told", "Tick")
BEGIN_US: Final = 5_000_000


class Call(NamedTuple):
    file: str
    name: str
    line: int
    """Where its function begins."""
    depth: int
    """1 for what the driver calls."""


def scenario(stack: str, what: str) -> Scenario:
    brokers = (
        BrokerSpec("b0"),
        *(BrokerSpec(name, at, 1_000) for name, at in (("b1", "b0"), ("b2", "b1"), ("b3", "b1"))),
    )
    clients = (ClientSpec("p", "b0", 100, ()), ClientSpec("s", "b2", 100, (SubscriptionSpec("t"),)))
    options = RandomOptions(keys_max=0, foreign_keys=0.0, attributes=False)
    mix = Mix(causal=1.0)
    once = WorkloadSpec(
        "random", ("p",), ("t",), keys=1, operations=1, mix=mix, payload=8, start_us=BEGIN_US, options=options
    )
    crash = FaultSpec(BEGIN_US, FaultKind.CRASH, nodes=("b1",))
    is_repair = what == "repair"
    return Scenario(
        name="walk",
        stack=stack,
        seed=1,
        brokers=brokers,
        clients=clients,
        workloads=() if is_repair else (once,),
        faults=(crash,) if is_repair else (),
        time_limit_us=60_000_000,
    )


def walk(stack: str, what: str) -> list[tuple[int, str, list[Call]]]:
    """(microseconds since it began, event, calls) of each step."""
    broker: Any = find_stack(stack).make_broker
    step = broker.step
    steps: list[tuple[int, str, list[Call]]] = []

    def followed(self: Any, event: Any, now_us: int) -> Any:
        calls: list[Call] = []
        depth = 0

        def note(frame: FrameType, kind: str, arg: Any) -> None:
            nonlocal depth
            code = frame.f_code
            file = code.co_filename.removeprefix(SOURCE)
            if kind in ("call", "return") and file.startswith(FLOORS) and not code.co_name.startswith("<"):
                depth += 1 if kind == "call" else -1
                if kind == "call":
                    calls.append(Call(file, code.co_name, code.co_firstlineno, depth))

        sys.setprofile(note)
        try:
            return step(self, event, now_us)
        finally:
            sys.setprofile(None)
            steps.append((now_us, _name(event), calls))

    broker.step = followed
    try:
        rows = Run(scenario(stack, what), None, ()).finish().rows
    finally:
        broker.step = step
    began, ended = ({"crash"}, {"repair_end"}) if what == "repair" else ({"publish"}, {"receipt"})
    first_us = min(row.time_us for row in rows if row.kind in began)
    last_us = max(row.time_us for row in rows if row.kind in ended)
    busy = [one for one in steps if first_us < one[0] <= last_us and one[1] not in SIGNS_OF_LIFE]
    return [(at_us - first_us, event, calls) for at_us, event, calls in busy]


def _name(event: Any) -> str:
    if isinstance(event, Received):
        return type(event.message).__name__
    return type(event.timer if isinstance(event, TimerFired) else event).__name__


def lines_of(calls: list[Call]) -> int:
    """Of the functions that are called, decorators included."""
    begins = {(call.file, call.line) for call in calls}
    lines = 0
    for file in {file for file, _ in begins}:
        for node in ast.walk(ast.parse(Path(SOURCE, file).read_text())):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
                lines += (node.end_lineno or first) - first + 1 if (file, first) in begins else 0
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.walks")
    parser.add_argument("stack", choices=["resprout", "ginger"])
    parser.add_argument("what", choices=["publication", "repair"])
    asked = parser.parse_args()
    steps = walk(asked.stack, asked.what)
    for at_us, event, calls in steps:
        ways = [f"{Path(call.file).stem}.{call.name}" for call in calls]
        sys.stdout.write(f"{at_us:>8} {event}: {len(calls)} calls\n         {' '.join(ways)}\n")
    calls = [call for _, _, made in steps for call in made]
    own = [call for call in calls if call.file.startswith(f"stacks/{asked.stack}/")]
    for title, some in (("all", calls), ("of the stack itself", own)):
        files, functions = {call.file for call in some}, {(call.file, call.name) for call in some}
        deepest = max(call.depth for call in some)
        sys.stdout.write(
            f"{title}: {len(files)} files, {len(functions)} functions of {lines_of(some)} lines, "
            f"{len(some)} calls in {len(steps)} steps, the deepest {deepest} deep\n"
        )


if __name__ == "__main__":
    main()
