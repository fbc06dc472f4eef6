"""Many runs from one scenario: a grid of settings, times seeds.

A sweep is a TOML file that names a base scenario and the axes along which it varies. `load_sweep` reads it and checks
it, `Sweep.runs` gives the runs one by one: whoever executes them (one after the other, or on a cluster) needs nothing
else. The order of runs and their names depend on the file alone, so a run can be asked for again by its name.

Settings are those of the command line (`--set path.to.option=value`), and so are complaints about them.

What this module will not do: run anything, or write anywhere.
"""

import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.scenario.load import NAME_LETTERS_MAX, SEED_MAX, build_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.reader import TomlTable
from resprout.scenario.shipped import find_file, read_shipped, shipped
from resprout.scenario.source import ScenarioError, TomlSource, apply_overrides, read_source

AXES_MAX: Final = 16
POINTS_MAX: Final = 10_000
SEEDS_MAX: Final = 10_000
RUNS_MAX: Final = 1_000_000
SETTINGS_MAX: Final = 1_000

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_LABEL: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}")
"""Safe in the name of a folder, and without the two marks that runs are named with."""

Settings = tuple[str, ...]
"""Each as after `--set`."""


class Point(msgspec.Struct, frozen=True):
    """A place on an axis."""

    label: str
    settings: Settings


class Axis(msgspec.Struct, frozen=True):
    name: str
    points: tuple[Point, ...]


class SweepRun(msgspec.Struct, frozen=True):
    name: str
    """`stack=ginger,faults=2,seed=3`: the axes in the order of the file, then the seed. Unique within the sweep."""
    labels: dict[str, str]
    """Axis to label: the columns that tell the runs apart."""
    seed: int
    scenario: Scenario
    """Its name is that of the run."""


class Sweep(msgspec.Struct, frozen=True):
    name: str
    base: TomlSource
    """The scenario that is varied, with the settings that all runs share."""
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.seeds) * math.prod(len(axis.points) for axis in self.axes)

    def runs(self) -> Iterator[SweepRun]:
        """All runs; the first axis varies slowest, seeds fastest. A setting that cannot be is a ScenarioError."""
        for points in itertools.product(*(axis.points for axis in self.axes)):
            labels = {axis.name: point.label for axis, point in zip(self.axes, points, strict=True)}
            settings = [setting for point in points for setting in point.settings]
            source = apply_overrides(self.base, settings)
            for seed in self.seeds:
                name = ",".join(f"{axis}={label}" for axis, label in (*labels.items(), ("seed", str(seed))))
                if len(name) > NAME_LETTERS_MAX:
                    raise ScenarioError(f"the name of a run is longer than {NAME_LETTERS_MAX} letters: {name[:60]}...")
                scenario = build_scenario(apply_overrides(source, [f"seed={seed}"]))
                yield SweepRun(name, labels, seed, msgspec.structs.replace(scenario, name=name))


def _read_base(sweep: Path, base: str) -> TomlSource:
    """Read the scenario that a sweep starts from: a path from its folder, or a name that comes with a package."""
    beside = sweep.parent / base
    if beside.exists() or base not in shipped("scenarios"):
        return read_source(beside)
    return read_shipped(base, "scenarios")


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep file, or a sweep that comes with a package by its name, and its base scenario.

    Raises ScenarioError, in one line with the place, for what cannot be expanded. `Sweep.runs` finds what only the
    combination of settings makes impossible, and `pipeline.report.sweep_report` what is wrong with figures.
    """
    source = read_shipped(path, "sweeps")
    file = TomlTable(source, ())
    file.only(("name", "base", "set", "seeds", "axis", "report", "figure"))
    name = file.text("name", Path(path).stem)
    if not _NAME.fullmatch(name):
        file.fail("name", f"{name!r} cannot name a folder: use letters and digits, inside also . _ + -")
    base = _read_base(find_file(path, "sweeps"), file.text("base"))
    shared = _settings(file)
    axes = tuple(_axis(table) for table in file.tables("axis", AXES_MAX, "axis"))
    _check_unique(file, [axis.name for axis in axes])
    sweep = Sweep(name, file.attempt("set", lambda _: apply_overrides(base, shared), None), axes, _seeds(file))
    if len(sweep) > RUNS_MAX:
        file.fail("axis", f"{len(sweep)} runs; at most {RUNS_MAX}")
    return sweep


def _axis(table: TomlTable) -> Axis:
    """Either one option with its values, or points that each change several options."""
    name = table.text("name")
    table.what = f"axis {name}"
    if not _NAME.fullmatch(name) or name == "seed":
        table.fail("name", "an axis has a name of letters and digits, inside also . _ + -; 'seed' is taken")
    if "point" in table:
        table.only(("name", "point"))
        points = tuple(_point(point) for point in table.tables("point", POINTS_MAX, f"axis {name}: point"))
    else:
        table.only(("name", "path", "values"))
        path = table.text("path")
        values = table.rows("values", POINTS_MAX)
        points = tuple(_value_point(table, path, number, value) for number, value in enumerate(values))
    if not points:
        table.fail("", "it needs at least one value")
    labels = [point.label for point in points]
    if repeated := next((label for label in labels if labels.count(label) > 1), None):
        table.fail("point" if "point" in table else "values", f"two points are called {repeated!r}")
    return Axis(name, points)


def _point(table: TomlTable) -> Point:
    table.only(("name", "set"))
    label = table.text("name")
    if not _LABEL.fullmatch(label):
        table.fail("name", f"{label!r} cannot be part of a run's name: use letters, digits and . _ + -")
    return Point(label, _settings(table))


def _value_point(table: TomlTable, path: str, number: int, value: Any) -> Point:
    place = ("values", number)
    if not isinstance(value, str | int | float | bool):
        table.fail(place, "values are texts, numbers, true or false; for more, use [[axis.point]]")
    if isinstance(value, float) and not math.isfinite(value):
        table.fail(place, f"{value} is no value")
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's scalars are TOML's, but for DEL
    label = value if isinstance(value, str) else text
    if not _LABEL.fullmatch(label):
        table.fail(place, f"{label!r} cannot be part of a run's name; give it one with [[axis.point]]")
    return Point(label, (f"{path}={text}",))


def _settings(table: TomlTable) -> Settings:
    return table.texts("set", SETTINGS_MAX, ())


def _seeds(file: TomlTable) -> tuple[int, ...]:
    if "seeds" not in file:
        file.fail("", "'seeds' is missing")
    seeds = file.rows("seeds", SEEDS_MAX)
    for number, seed in enumerate(seeds):
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= SEED_MAX:
            file.fail(("seeds", number), f"a seed is a whole number from 0 to {SEED_MAX}")
        if seed in seeds[:number]:
            file.fail(("seeds", number), f"the seed {seed} is there twice")
    if not seeds:
        file.fail("seeds", "it needs at least one seed")
    return tuple(seeds)


def _check_unique(file: TomlTable, names: list[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            file.fail(("axis", number), f"two axes are called {name!r}")
