"""A small archive, made without Spark."""

from pathlib import Path

from resprout.pipeline.archive import staging
from resprout.pipeline.places import make_archive
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario
from resprout.trace.schema import Row
from resprout.trace.store import RunInfo, write_trace

SCENARIO = """
name = "a small tree"
[topology]
kind = "tree"
brokers = 2
degree = 3
clients_per_broker = 1
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
operations = 4
mix = { eventual = 0.2, fifo = 0.3, causal = 0.5 }
interval = "10ms"
start = "200ms"
"""


def rows_of(seed: int) -> list[Row]:
    return run_scenario(parse_scenario(SCENARIO, overrides=[f"seed={seed}"])).rows


def without_last_delivery(rows: list[Row]) -> list[Row]:
    last = max(number for number, row in enumerate(rows) if row.kind == "deliver")
    return [*rows[:last], *rows[last + 1 :]]


def make_runs(archive: Path) -> Path:
    """Two clean runs, and between them one that lost a delivery."""
    make_archive(archive)
    with staging(archive) as stage:
        for seed in (1, 2, 3):
            rows = without_last_delivery(rows_of(seed)) if seed == 2 else rows_of(seed)
            folder = stage.new_folder()
            write_trace(folder, rows, RunInfo(scenario={"name": "small"}, seed=seed, ended="quiescent"))
            stage.publish(folder, "small", f"seed={seed}")
    return archive
