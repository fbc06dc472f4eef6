"""From a TOML file to a `Scenario`, or to the many runs of a sweep.

A file that cannot be run gives a `ScenarioError` that names the place and the reason in one line. Keys of a scenario
file: `name` (default: the file's), `stack`, `seed`, `time_limit`, `client_links`, `count_bytes`, `trace`, `[options]`
of the stack, `[[broker]]` or `[topology]`, `[[client]]`, `[[workload]]`, `[[fault]]`. `model` lists what each table may
hold. Anything unknown is refused: an option that is silently ignored makes a run that nobody asked for.

A sweep is a TOML file that names a base scenario and the axes along which it varies, times seeds. `load_sweep` reads it
and checks it, `Sweep.runs` gives the runs one by one: whoever executes them (one after the other, or on a cluster)
needs nothing else. The order of runs and their names depend on the file alone, so a run can be asked for again by its
name. Settings are those of the command line (`--set path.to.option=value`), and so are complaints about them. This
module runs nothing and writes nowhere.
"""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.guarantee import ReceiptLevel
from resprout.scenario.model import TIME_LIMIT_US, BrokerSpec, FaultKind, FaultSpec, OptionValue, Scenario
from resprout.scenario.read_faults import read_faults, settle_faults
from resprout.scenario.read_logs import check_replicas, read_logs, read_readers
from resprout.scenario.read_mqtt import check_mqtt
from resprout.scenario.read_nodes import blame, check_nodes, read_brokers, read_clients
from resprout.scenario.read_workloads import read_workloads
from resprout.scenario.reader import TomlTable
from resprout.scenario.source import (
    ScenarioError,
    TomlSource,
    apply_overrides,
    find_file,
    parse_source,
    read_shipped,
    read_source,
    shipped,
)
from resprout.stacks.stack import DEFAULT, Stack, find_stack

SEED_MAX: Final = 2**63 - 1
NAME_LETTERS_MAX: Final = 200

_KEYS: Final = (
    "name", "stack", "seed", "time_limit", "client_links", "count_bytes", "trace", "options", "topology", "broker",
    "client", "workload", "fault", "log", "reader",
)  # fmt: skip

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


def load_scenario(path: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Read a file, or a scenario that comes with a package by its name.

    `overrides` are texts like `workload.0.operations=10`, see `apply_overrides`.
    """
    return build_scenario(apply_overrides(read_shipped(path, "scenarios"), overrides))


def parse_scenario(text: str, name: str = "<text>", overrides: Iterable[str] = ()) -> Scenario:
    """The same for a text that is in no file."""
    return build_scenario(apply_overrides(parse_source(text, name), overrides))


def build_scenario(source: TomlSource) -> Scenario:
    """Makes sense of a TOML tree, and checks that what it says can be run."""
    file = TomlTable(source, ())
    file.only(_KEYS)
    stack = file.checked("stack", find_stack) if "stack" in file else find_stack(DEFAULT)
    seed = file.integer("seed", 0, SEED_MAX, 1)
    time_limit_us = file.duration("time_limit", TIME_LIMIT_US)
    brokers = read_brokers(file, seed)
    clients = read_clients(file, brokers)
    fault_tables, faults = read_faults(file, time_limit_us)
    joining = [name for fault in faults if fault.kind is FaultKind.JOIN for name in fault.nodes]
    check_nodes(file, brokers, clients, joining)
    options = _options(file, stack)
    _check_sites(file, stack, brokers, faults, options)
    workloads = read_workloads(file, clients, stack.offered(stack.parse_options(options)))
    if not stack.keeps_subscriptions and (consumer := next((c for c in clients if c.consumes), None)) is not None:
        reason = f"the stack {stack.name!r} does not offer durable subscriptions"
        blame(file, "client", consumer.name, "subscribe", reason)
    dropping = {client.name for client in clients if client.when_full == "drop_oldest"}
    max_payload = stack.max_payload(stack.parse_options(options))
    for number, workload in enumerate(workloads):
        if workload.payload > max_payload:
            reason = f"{workload.payload} bytes are more than brokers accept ({max_payload}, option max_payload)"
            file.fail(("workload", number, "payload"), reason)
        if workload.kind == "bank" and (replicas := sorted(dropping.intersection(workload.clients))):
            reason = f"a replica of a bank needs every operation, but messages of {replicas[0]} may be dropped"
            file.fail(("workload", number, "clients") if workload.clients else ("workload", number), reason)
        if workload.window and ReceiptLevel.SAFE not in stack.receipts:
            reason = f"the stack {stack.name!r} does not give the receipt 'safe', which a window waits for"
            file.fail(("workload", number, "window"), reason)
    logs = read_logs(file, stack, [broker.name for broker in brokers])
    trace = file.choice("trace", ("rows", "counts"), "rows")
    check_mqtt(file, stack.name, trace, clients, workloads)
    check_replicas(file, logs, [*[broker.name for broker in brokers], *joining])
    return Scenario(
        name=_name(file),
        brokers=brokers,
        stack=stack.name,
        seed=seed,
        time_limit_us=time_limit_us,
        options=options,
        clients=clients,
        workloads=workloads,
        has_free_client_links=file.choice("client_links", ("charged", "free"), "charged") == "free",
        counts_bytes=file.flag("count_bytes", False),
        trace=trace,
        faults=settle_faults(fault_tables, faults, brokers, clients, seed),
        logs=logs,
        readers=read_readers(file, logs, clients),
    )


def _check_sites(
    file: TomlTable,
    stack: Stack[Any],
    brokers: Sequence[BrokerSpec],
    faults: Sequence[FaultSpec],
    options: Mapping[str, OptionValue],
) -> None:
    """A site that lacks a broker never forms, and one that has too many leaves one out."""
    size = stack.site_brokers(stack.parse_options(options))
    if not size:
        return
    _check_site_contacts(file, stack, brokers, faults)
    joined = Counter(fault.site for fault in faults if fault.kind is FaultKind.JOIN for _ in fault.nodes)
    for site, count in Counter(broker.site for broker in brokers).items():
        if site is not None and count + joined[site] != size:
            first = next(broker.name for broker in brokers if broker.site == site)
            found = f"the site {site!r} has {count + joined[site]} brokers"
            wanted = f"with these options the stack {stack.name!r} has {size} in each"
            blame(file, "broker", first, "site", f"{found}; {wanted}")


def _check_site_contacts(
    file: TomlTable, stack: Stack[Any], brokers: Sequence[BrokerSpec], faults: Sequence[FaultSpec]
) -> None:
    """They lead to others of the same site. A site that knows another one only so is never told to be its child."""
    reason = f"in the stack {stack.name!r} contacts are brokers of the same site; a parent leads to another one"
    sites = {name: fault.site for fault in faults if fault.kind is FaultKind.JOIN for name in fault.nodes}
    sites |= {broker.name: broker.site for broker in brokers}
    for broker in brokers:
        if any(broker.site is None or sites[contact] != broker.site for contact in broker.contacts):
            blame(file, "broker", broker.name, "contacts", reason)
    for number, fault in enumerate(faults):
        if any(fault.site is None or sites.get(contact) != fault.site for contact in fault.contacts):
            file.fail(("fault", number, "contacts"), reason)


def _name(file: TomlTable) -> str:
    name = file.text("name", Path(file.source.name).stem)
    if not name or len(name) > NAME_LETTERS_MAX or not name.isprintable():
        file.fail("name", f"a name is one line of 1 to {NAME_LETTERS_MAX} letters")
    return name


def _options(file: TomlTable, stack: Stack[Any]) -> dict[str, OptionValue]:
    """As written, once the stack has found nothing wrong with them."""
    if "options" not in file:
        return {}
    table = TomlTable(file.source, ("options",), "options")
    for key, value in table.values.items():
        if not isinstance(value, str | int | float | bool):
            table.fail(key, f"{key} must be a text, a number, true or false")
    try:
        stack.parse_options(table.values)
    except UsageError as error:
        table.fail(_to_blame(stack, table.values, str(error)), str(error))
    return dict(table.values)


def _to_blame(stack: Stack[Any], values: Mapping[str, Any], complaint: str) -> str:
    """The option that earns the complaint by itself; none where only several together do, which may go well with each
    other and not with the defaults of the others."""
    for key, value in values.items():
        try:
            stack.parse_options({key: value})
        except UsageError as error:
            if str(error) == complaint:
                return key
    return ""


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
