"""Small traces and small sweeps to work with."""

from pathlib import Path

from resprout.trace.schema import Row
from resprout.trace.store import RunInfo, TraceWriter

SCENARIO = """
name = "a small tree"
seed = 5
time_limit = "60s"
[topology]
kind = "tree"
brokers = 3
degree = 3
latency = "5ms"
clients_per_broker = 1
subscribe = ["a/#"]
[[workload]]
kind = "random"
topics = ["a/x", "a/y"]
operations = 5
mix = { eventual = 0.2, fifo = 0.3, causal = 0.5 }
interval = "10ms"
start = "200ms"
"""

SWEEP = """
name = "small"
base = "tree.toml"
set = ["workload.0.payload=16"]
seeds = [1, 2]
[[axis]]
name = "ops"
path = "workload.0.operations"
values = [3, 6]
"""


def rows(count: int, node: str = "c0") -> list[Row]:
    return [Row(time_us=n, node=node, kind="note", detail=str(n)) for n in range(count)]


def a_trace(folder: Path, count: int = 5, node: str = "c0", name: str = "storm") -> Path:
    """Of two parts."""
    writer = TraceWriter(folder)
    writer.write(rows(count, node))
    writer.write(rows(count, f"{node}'"))
    writer.finish(RunInfo(scenario={"name": name}, ended="quiescent"))
    return folder


def a_sweep(folder: Path) -> Path:
    (folder / "tree.toml").write_text(SCENARIO)
    (folder / "small.toml").write_text(SWEEP)
    return folder / "small.toml"


def spoil(path: Path) -> None:
    """Flips bytes in the middle."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 20] = bytes(byte ^ 0xFF for byte in content[middle : middle + 20])
    path.write_bytes(content)


def files(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, to compare; not what only says that somebody was here."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }
