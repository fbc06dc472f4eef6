"""Logs that commands create and move in the virtual world, while brokers crash and return."""

from random import Random
from typing import Any

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.edge.position_messages import LogChange
from resprout.edge.requests import ChangeLogRequest
from resprout.journal.interface import Flush
from resprout.scenario.model import FaultKind, FaultSpec
from resprout.sim.run import Run
from tests.sim.test_logs import DENSE, LOG, TEXT, crash, recover
from tests.sim.test_logs import scenario as with_log
from tests.soak import cases

BROKERS = ("b0", "b1", "b2", "b3", "b4")


def ask(running: Run, at_us: int, client: str, change: LogChange, replicas: tuple[str, ...]) -> None:
    request = ChangeLogRequest(change, "made", "load/#", replicas, flush=Flush.ALWAYS)

    def asks(first: Any, second: Any) -> None:
        process = running.world.nodes[client].process
        assert process is not None, "clients do not crash here"
        running.world.request(process, request)

    running.world.at(at_us, asks)


def failures(rng: Random) -> list[FaultSpec]:
    """One broker at a time fails, and returns before the next one does."""
    faults: list[FaultSpec] = []
    at_ms = 6_000
    for _ in range(3):
        at_ms += rng.randint(0, 3_000)
        name = rng.choice(BROKERS)
        back_ms = at_ms + rng.randint(3_000, 6_000)
        faults += [crash(at_ms, name), recover(back_ms, name)]
        at_ms = back_ms + 3_000
    return faults


FOUND = {
    2: "the leader is not declared any more, and the new replica asked only declared ones",
    20: "a replica that was moved away did not hear that it is no member, and stood for election without end",
    45: "two new replicas at once did not listen to the leader, which is not declared any more",
}
"""Seeds that have failed, and why."""


@pytest.mark.parametrize("seed", sorted({*range(1, cases(6, 300) + 1), *FOUND}))
def test_a_log_that_is_created_and_moved_while_brokers_fail_is_complete(seed: int) -> None:
    rng = Random(seed)
    made = with_log(*failures(rng), seed=seed, text=DENSE)
    running = Run(msgspec.structs.replace(made, logs=()), None, ())
    running.logs.follows_commands = True
    before, after = (tuple(rng.sample(BROKERS, 3)) for _ in range(2))
    clients = [client.name for client in made.clients]
    ask(running, 5_000_000, rng.choice(clients), LogChange.CREATE, before)
    ask(running, 7_000_000 + rng.randint(0, 15_000_000), rng.choice(clients), LogChange.MOVE, after)
    result = running.finish()
    verdict = judge(result.rows)
    assert result.ended == "quiescent" and not verdict.violated, "\n".join(lines(verdict))
    assert not any(row.kind == "log_gap" for row in result.rows)
    (log,) = running.logs.declared
    assert set(log.replicas) in (set(before), set(after)), "a broker that was lost may not have taken the command"
    entries = [running.logs.entries(log, name) for name in log.replicas]
    assert entries[0] and all(entries[0] == each for each in entries)


def test_a_network_without_logs_gets_none_by_itself() -> None:
    made = msgspec.structs.replace(with_log(), logs=())
    running = Run(made, None, ())
    running.logs.follows_commands = True
    result = running.finish()
    assert result.ended == "quiescent" and running.logs.declared == () and LOG.name in TEXT
    assert not any(fault.kind is FaultKind.CRASH for fault in made.faults)
