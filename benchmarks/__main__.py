"""`python -m benchmarks [NAME...] [--quick] [--json]`: every rate next to its yardstick, measured in the same run."""

import argparse
import importlib
import json
import sys

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Measure

NAMES = (
    "wire", "links", "filters", "sim", "audit", "net", "persist", "durable", "repair", "seed000", "totals", "spark",
    "spark_io", "explain", "live", "growth", "gossip", "headers", "steps", "total_rates", "guarded", "windows", "slow",
    "checks", "mqtt", "degrees", "root_order", "logs",
)  # fmt: skip

PIPE_COLUMNS = 160
"""A file or a pipe has no width of its own."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="less work and fewer rounds, for a first look")
    parser.add_argument("--json", action="store_true", help="one object per measure and line")
    wanted = parser.parse_args()
    if unknown := [name for name in wanted.names if name not in NAMES]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there is {', '.join(NAMES)}")
    for name in wanted.names or NAMES:
        measures: list[Measure] = importlib.import_module(f"benchmarks.bench_{name}").run(quick=wanted.quick)
        if wanted.json:
            for measure in measures:
                print(json.dumps({"benchmark": name, **msgspec.to_builtins(measure), "ratio": measure.ratio}))
        else:
            Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(_table(name, measures))
    return 0


def _table(name: str, measures: list[Measure]) -> Table:
    table = Table(title=name, title_justify="left")
    table.add_column("what")
    table.add_column("rate", justify="right")
    table.add_column("unit")
    table.add_column("yardstick")
    table.add_column("its rate", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("goal")
    for m in measures:
        table.add_row(
            m.name, _figure(m.value), m.unit, m.yardstick, _figure(m.yardstick_value), f"{m.ratio:.2f}", m.goal
        )
    return table


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
