"""A run as measuring sees it: its setting from `run.json`, and its rows as columns of numbers.

`Setting` says who took part, how far apart they were, and what was asked of them.

`observe` reads the rows part by part. Publications and deliveries, which are nearly all rows, become arrays; the few
rows about faults, repairs and load stay rows. Texts are numbered, so a delivery is kept as three numbers, however long
its names are.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resprout.core.errors import UsageError
from resprout.pipeline.places import RunPlace, TracePart
from resprout.pipeline.stores import source_of
from resprout.sim.network import Distances
from resprout.stacks.stack import find_stack
from resprout.trace import kinds
from resprout.trace.schema import TraceError
from resprout.trace.store import INFO_NAME

_JOIN: Final = "join"

Numbers = npt.NDArray[np.int64]

_COLUMNS: Final = (
    "time_us", "node", "kind", "publisher", "incarnation", "stream", "seq", "guarantee", "hops", "metadata_bytes",
    "payload_bytes", "detail",
)  # fmt: skip
_REPEATED: Final = ["node", "kind", "publisher", "stream", "guarantee"]
"""Few values, many times: Parquet has numbered them already."""
_SOURCE: Final = ("publisher", "incarnation", "stream")
_BATCH_ROWS: Final = 1 << 17
_ABSENT: Final = np.iinfo(np.int64).min
"""Stands for a number that is not there."""
_PLENTY: Final = frozenset(
    (kinds.PUBLISH, kinds.DELIVER, kinds.RECEIPT, kinds.APPLIED, kinds.SUBSCRIBE, kinds.SUBSCRIBED,
     kinds.UNSUBSCRIBE, kinds.UNSUBSCRIBED, kinds.REFUSED)
)  # fmt: skip
"""What clients ask and get; every other kind tells of something that happened to the network."""


class RunKey(TypedDict):
    """How every row of a result table begins."""

    experiment: str
    run: str
    digest: str


class BrokerSetting(msgspec.Struct, frozen=True):
    name: str
    parent: str | None = None
    latency_us: int = 0


class _Client(msgspec.Struct, frozen=True):
    name: str
    broker: str = ""
    latency_us: int = 0


class _Workload(msgspec.Struct, frozen=True):
    keys: int | None = None


class _Fault(msgspec.Struct, frozen=True):
    kind: str = ""
    nodes: tuple[str, ...] = ()
    parent: str | None = None
    latency_us: int = 0


class Setting(msgspec.Struct, frozen=True):
    """The parts of a scenario that measuring needs; a trace may come without any."""

    name: str = ""
    stack: str = ""
    brokers: tuple[BrokerSetting, ...] = ()
    clients: tuple[_Client, ...] = ()
    workloads: tuple[_Workload, ...] = ()
    faults: tuple[_Fault, ...] = ()

    @property
    def all_brokers(self) -> dict[str, BrokerSetting]:
        """Those that join later included, each in its first place."""
        joins = [fault for fault in self.faults if fault.kind == _JOIN]
        joining = (BrokerSetting(name, join.parent, join.latency_us) for join in joins for name in join.nodes)
        found: dict[str, BrokerSetting] = {}
        for broker in (*self.brokers, *joining):
            found.setdefault(broker.name, broker)
        return found

    def distances(self) -> Distances:
        distances = Distances()
        for broker in self.all_brokers.values():
            distances.place(broker.name, broker.parent, broker.latency_us)
        return distances


def key_of(place: RunPlace) -> RunKey:
    return RunKey(experiment=place.experiment, run=place.run, digest=place.info.digest)


def setting_of(place: RunPlace) -> Setting:
    try:
        return msgspec.convert(place.info.scenario, Setting)
    except msgspec.ValidationError as error:
        raise TraceError(f"{place.folder}/{INFO_NAME}: the scenario is damaged: {error}") from None


FAULTS_TOLERATED: Final = ("faults_tolerated", "f", "delta")
"""What stacks call the number of faults that they are to survive."""


def faults_tolerated(place: RunPlace, stack: str) -> int | None:
    """As the run was told, or as the stack has it by default; None for a stack that has no such number."""
    options: Any = place.info.options
    for name in FAULTS_TOLERATED:
        if isinstance(options.get(name), int):
            return int(options[name])
    try:
        options = find_stack(stack).parse_options(place.info.options)
    except UsageError:
        return None
    return next((getattr(options, name) for name in FAULTS_TOLERATED if hasattr(options, name)), None)


def labels_of(name: str) -> dict[str, str]:
    """Of a run in a sweep, by its name `axis=label,...,seed=n`; any other name has none."""
    *axes, seed = name.split(",")
    pairs = [axis.partition("=")[::2] for axis in axes]
    if not seed.startswith("seed=") or not all(axis and label for axis, label in pairs):
        return {}
    return dict(pairs)


class ObservedEvent(msgspec.Struct, frozen=True):
    """A row that is neither asked nor given."""

    time_us: int
    node: str
    kind: str
    detail: str


class ObservedPublications(msgspec.Struct, frozen=True):
    """Publish rows, or deliver rows, in order."""

    row: Numbers
    time_us: Numbers
    node: Numbers
    """Numbers of `Observed.nodes`."""
    source: Numbers
    """Numbers of publisher, incarnation and stream together."""
    seq: Numbers
    guarantee: Numbers
    """Numbers of `Observed.guarantees`."""


class ColumnTally(msgspec.Struct):
    """Of one column of the deliveries, where it is filled in."""

    count: int = 0
    total: int = 0
    most: int | None = None

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def add(self, column: Any) -> None:
        there = len(column) - column.null_count
        if there:
            self.count += there
            self.total += pc.sum(column.cast(pa.int64())).as_py()
            most = pc.max(column).as_py()
            self.most = most if self.most is None else max(self.most, most)


class Observed(msgspec.Struct, frozen=True):
    rows: int
    first_us: int
    last_us: int
    publications: ObservedPublications
    deliveries: ObservedPublications
    nodes: list[str]
    guarantees: list[str]
    events: list[ObservedEvent]
    load: dict[str, dict[str, int]]
    """By node: what it counted, as its load row names it."""
    hops: ColumnTally
    metadata_bytes: ColumnTally
    payload_bytes: ColumnTally


class _Numbering:
    """Numbers for values, dense from 0; that a value is missing is a value as well."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    @property
    def texts(self) -> list[str]:
        return [text or "" for text in self._numbers]

    def number(self, column: Any) -> Numbers:
        encoded = column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        places = encoded.indices
        if places.null_count:
            places = places.fill_null(len(values))
            values.append(None)
        numbers = np.asarray([self._numbers.setdefault(value, len(self._numbers)) for value in values], dtype=np.int64)
        found: Numbers = numbers[places.to_numpy()]
        return found


def observe(place: RunPlace) -> Observed:
    return _Reading().read(place)


class _Reading:
    """Of one run."""

    def __init__(self) -> None:
        self._rows = 0
        self._span_us: tuple[int, int] | None = None
        self._numbering = {column: _Numbering() for column in ("node", "guarantee", *_SOURCE)}
        self._sources = _Numbering()
        self._pieces: dict[str, list[ObservedPublications]] = {kinds.PUBLISH: [], kinds.DELIVER: []}
        self._events: list[ObservedEvent] = []
        self._tallies = {column: ColumnTally() for column in ("hops", "metadata_bytes", "payload_bytes")}

    def read(self, place: RunPlace) -> Observed:
        load: dict[str, dict[str, int]] = {}
        for part in place.parts:
            known = len(self._events)
            with _damage_named(part):
                for batch in _batches(part, _COLUMNS):
                    self._take(batch)
                if any(event.kind == kinds.LOAD for event in self._events[known:]):
                    load |= _load_in(part)
        first_us, last_us = self._span_us or (0, 0)
        return Observed(
            rows=self._rows,
            first_us=first_us,
            last_us=last_us,
            publications=_joined(self._pieces[kinds.PUBLISH]),
            deliveries=_joined(self._pieces[kinds.DELIVER]),
            nodes=self._numbering["node"].texts,
            guarantees=self._numbering["guarantee"].texts,
            events=self._events,
            load=load,
            **self._tallies,
        )

    def _take(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        span = pc.min_max(batch["time_us"]).as_py()
        low, high = self._span_us or (span["min"], span["max"])
        self._span_us = min(low, span["min"]), max(high, span["max"])
        row = np.arange(self._rows, self._rows + batch.num_rows)
        self._rows += batch.num_rows
        for kind, pieces in self._pieces.items():
            chosen = pc.equal(batch["kind"], kind)
            piece = batch.filter(chosen)
            pieces.append(self._published(piece, row[chosen.to_numpy(zero_copy_only=False)]))
            if kind == kinds.DELIVER:
                for column, tally in self._tallies.items():
                    tally.add(piece[column])
        rare = batch.filter(pc.invert(pc.is_in(batch["kind"], pa.array(sorted(_PLENTY)))))
        self._events += map(_event, rare.select(["time_us", "node", "kind", "detail"]).to_pylist())

    def _published(self, piece: Any, row: Numbers) -> ObservedPublications:
        number = {column: numbering.number(piece[column]) for column, numbering in self._numbering.items()}
        publisher, incarnation, stream = (number[column] for column in _SOURCE)
        return ObservedPublications(
            row=row,
            time_us=_integers(piece["time_us"]),
            node=number["node"],
            # numbers are dense, so a million of lives and streams of a million publishers have room beside each other
            source=self._sources.number(pa.array(((publisher << 20) + incarnation << 20) + stream)),
            seq=_integers(piece["seq"]),
            guarantee=number["guarantee"],
        )


def _batches(part: TracePart, columns: Sequence[str]) -> Iterator[Any]:
    with pq.ParquetFile(source_of(part.path), read_dictionary=_REPEATED) as file:
        yield from file.iter_batches(_BATCH_ROWS, columns=list(columns), use_threads=False)


@contextlib.contextmanager
def _damage_named(part: TracePart) -> Iterator[None]:
    """Texts and their places in dictionaries are taken as they are; damage shows only where they are used."""
    try:
        yield
    except (pa.ArrowException, OSError, IndexError, UnicodeDecodeError) as error:
        raise TraceError(f"{part.path}: damaged or not Parquet: {' '.join(str(error).split())[:200]}") from None


def _load_in(part: TracePart) -> dict[str, dict[str, int]]:
    """Attributes cost more to read than all other columns together, so it is done only where there are load rows."""
    load = {}
    for batch in _batches(part, ("node", "kind", "attributes")):
        for cells in batch.filter(pc.equal(batch["kind"], kinds.LOAD)).to_pylist():
            counts = dict(cells["attributes"] or ())
            try:
                load[cells["node"]] = {name: int(text) for name, text in counts.items()}
            except ValueError:
                raise TraceError(f"{part.path}: the load row of {cells['node']} counts {counts}") from None
    return load


def _integers(column: Any) -> Numbers:
    return np.asarray(column.cast(pa.int64()).fill_null(_ABSENT).to_numpy(zero_copy_only=False), dtype=np.int64)


def _joined(pieces: list[ObservedPublications]) -> ObservedPublications:
    columns = ObservedPublications.__struct_fields__
    empty = np.empty(0, dtype=np.int64)
    return ObservedPublications(
        *(np.concatenate([empty, *(getattr(piece, name) for piece in pieces)]) for name in columns)
    )


def _event(cells: Mapping[str, Any]) -> ObservedEvent:
    return ObservedEvent(cells["time_us"], cells["node"], cells["kind"], cells["detail"] or "")
