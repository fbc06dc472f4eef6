"""The options of a query, and the offsets at which it is.

Options are checked where the query is planned; an error is one line that says what is wrong and where, because Spark
shows the last line of an error. Names are Kafka's where the meaning is the same. Spark hands all of them over in small
letters, with some of its own.

An offset is a position in the journal of one broker. For Spark, which writes it into the checkpoint, it is
`{"tap.4e3c6f88": {"7": 41}}`: everything before position 41 of the journal tap.4e3c6f88 was read, and 41 lies in life
7. Lives that ended earlier stay beside it, each with the position at which it ended. Positions go on from life to life,
so the highest is where the query is. A position is that of a bundle. In the column `offset` the place of a message in
its bundle follows in the lowest bits, so that the number is unique in a journal, and rises. The same offsets and
options give the same tasks (`JournalRange`), after a restart too.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from resprout.client.connect import parse_addresses
from resprout.client.past_events import Offset, Start, read_start
from resprout.core.errors import ResproutError, UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import PARTITIONS, check_name, check_topic
from resprout.core.partitions import check_log_name, split_name
from resprout.filters.predicate import check_filter, parse_predicate
from resprout.logs.declaration import LOG_PREFIX
from resprout.net.identity.scram import read_login
from resprout.scenario.reader import parse_duration

INDEX_BITS: Final = 16
"""Of the column `offset`, for the place of a message in its bundle: more than a bundle may hold."""

T = TypeVar("T")

_OF_SPARK: Final = frozenset(("path", "checkpointlocation", "queryname", "outputmode", "mergeschema"))
"""What Spark adds by itself."""
_ACCESS: Final = ("servers", "tls", "login", "token", "timeout")
_SOURCE: Final = (
    *_ACCESS, "subscribe", "subscribePattern", "assign", "log", "where", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "failOnDataLoss", "includeHeaders",
)  # fmt: skip
_SINK: Final = (*_ACCESS, "topic", "guarantee", "publisher", "ledger")

TIMEOUT_S: Final = 60.0
"""So long a broker that does not answer is tried again."""
PARTITIONS_MAX: Final = 10_000
TRIGGER_DELAY_S: Final = 900.0
"""So long, unless `maxTriggerDelay` says otherwise, `minOffsetsPerTrigger` is waited for."""
_EVERYTHING: Final = "#"
"""Of a log: all that it keeps."""
_KAFKA: Final[dict[int, Start]] = {-2: "earliest", -1: "latest"}
"""Offsets that mean a place."""


class JournalOffset(msgspec.Struct, frozen=True):
    """What was read of a journal."""

    journal: str
    lives: tuple[tuple[int, int], ...]
    """(life, position behind its last that was read), rising; at least one."""

    @property
    def position(self) -> int:
        return self.lives[-1][1]

    @property
    def life(self) -> int:
        return self.lives[-1][0]

    def moved(self, segments: tuple[tuple[int, int], ...]) -> "JournalOffset":
        """Further on: (life, end) of what follows, rising."""
        lives = dict(self.lives) | dict(segments)
        if 0 in lives and len(lives) > 1:
            del lives[0]  # nothing had been kept when the query began
        return JournalOffset(self.journal, tuple(sorted(lives.items(), key=lambda one: (one[1], one[0]))))


def to_json(offset: JournalOffset) -> dict[str, dict[str, int]]:
    """As Spark keeps it."""
    return {offset.journal: {str(life): position for life, position in offset.lives}}


def from_json(kept: Mapping[str, Any]) -> JournalOffset:
    """UsageError for what is no offset of one journal."""
    try:
        ((journal, lives),) = kept.items()
        if isinstance(lives, int):
            lives = {"0": lives}
        pairs = sorted(((int(life), position) for life, position in lives.items()), key=lambda one: (one[1], one[0]))
        if not journal or not pairs or any(type(position) is not int or position < 0 for _, position in pairs):
            raise ValueError
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f'{msgspec.json.encode(kept).decode()} is no offset: {{"JOURNAL": {{"LIFE": POSITION}}}}, of one journal'
        ) from None
    return JournalOffset(journal, tuple(pairs))


def read_place(text: str) -> Start:
    """What a user writes: `earliest`, `latest`, JSON as above, an offset as `resprout read` prints it, or a time."""
    text = text.strip()
    if text.startswith("{"):
        try:
            kept = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise UsageError(f"{text}: {error}") from None
        if (place := _place_of(kept) or _place_in_partitions(kept)) is not None:
            return place
        offset = from_json(kept)
        return Offset(offset.journal, offset.position, offset.life)
    return read_start(text, "offset")


def _place_of(kept: Mapping[str, Any]) -> Start | None:
    """Return the place that -1 or -2 means, as in Kafka; None for any other offset."""
    values = list(kept.values())
    if len(values) == 1 and isinstance(values[0], dict):
        values = list(values[0].values())
    return _KAFKA.get(values[0]) if len(values) == 1 and type(values[0]) is int else None


def _place_in_partitions(kept: Mapping[str, Any]) -> Start | None:
    """Return the offset that names one for each partition of a log: as Kafka writes it, `{"bank": {"0": 41, "1": 7}}`,
    or as a checkpoint has it. None for any other offset."""
    names = [split_name(journal) for journal in kept]
    if (
        len(kept) > 1
        and len({log for log, _ in names}) == 1
        and {number for _, number in names} == set(range(len(kept)))
    ):
        positions = {
            number: from_json({journal: kept[journal]}).position
            for journal, (_, number) in zip(kept, names, strict=True)
        }
        return _offset_of(names[0][0], positions)
    if len(kept) == 1:
        ((journal, inner),) = kept.items()
        if isinstance(inner, dict) and len(inner) > 1 and set(inner) == {str(number) for number in range(len(inner))}:
            positions = {int(number): from_json({journal: position}).position for number, position in inner.items()}
            return _offset_of(journal, positions)
    return None


def _offset_of(journal: str, positions: Mapping[int | None, int]) -> Offset:
    in_order = tuple([positions[number] for number in range(len(positions))])
    return Offset(journal, sum(in_order), positions=in_order)


class JournalRange(msgspec.Struct, frozen=True):
    """Positions `start` to `end - 1`, all of one life."""

    journal: str
    life: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges_between(start: JournalOffset, end: JournalOffset) -> list[JournalRange]:
    """What lies between two offsets: one range for each life."""
    ranges = []
    position = start.position
    for life, last in end.lives:
        if last > position:
            ranges.append(JournalRange(end.journal, life, position, last))
            position = last
    return ranges


def split(ranges: Sequence[JournalRange], least: int) -> list[JournalRange]:
    """At least so many, where there are as many positions; larger ranges are cut into more."""
    total = sum(each.size for each in ranges)
    if least <= len(ranges) or not total:
        return list(ranges)
    portion = max(1, -(-total // least))
    parts = []
    for each in ranges:
        count = -(-each.size // portion)
        cuts = [each.start + each.size * number // count for number in range(count + 1)]
        parts += [JournalRange(each.journal, each.life, begin, end) for begin, end in pairwise(cuts) if end > begin]
    return parts


class AccessOptions(msgspec.Struct, frozen=True):
    """Whom to talk to, and as whom."""

    servers: tuple[str, ...]
    tls: str | None = None
    login: str | None = None
    """`NAME:SECRET`."""
    timeout_s: float = TIMEOUT_S


class SourceOptions(msgspec.Struct, frozen=True):
    access: AccessOptions
    filters: tuple[str, ...]
    where: str | None = None
    start: Start = "latest"
    end: Start = "latest"
    positions_max: int | None = None
    """In one micro-batch."""
    partitions_min: int = 1
    fails_on_loss: bool = True
    headers: bool = False
    log: str | None = None
    """Name of the log to read; None: read the journal of a broker."""
    pattern: str | None = None
    """Regular expression that topics match as a whole."""
    positions_min: int = 0
    """In one micro-batch, unless it has been waited for so long."""
    delay_s: float = TRIGGER_DELAY_S
    assigned: tuple[int, ...] = ()
    """Partitions of the log to read; none: all."""

    @property
    def journal(self) -> str:
        """Name of the journal or log to read; empty for the journal of any broker."""
        return f"{LOG_PREFIX}{self.log}" if self.log is not None else ""


class SinkOptions(msgspec.Struct, frozen=True):
    access: AccessOptions
    topic: str | None
    guarantee: Guarantee
    publisher: str | None
    ledger: str | None


def source_options(options: Mapping[str, str], is_stream: bool) -> SourceOptions:
    """UsageError for whatever is wrong with them."""
    _check_known(options, _SOURCE)
    log, assigned = _log_of(options)
    filters = tuple(dict.fromkeys(one.strip() for one in _filters_of(options, log).split(",")))
    where = options.get("where") or None
    for topic_filter in filters:
        _named("subscribe", check_filter, topic_filter)
    _named("where", parse_predicate, filters[0], where)
    if is_stream and ("endingOffsets" in options or "endingTimestamp" in options):
        raise UsageError("endingOffsets: a stream has no end; use trigger(availableNow=True), or spark.read")
    start = _place(options, "startingOffsets", "startingTimestamp", "latest" if is_stream else "earliest", log)
    if start == "latest" and not is_stream:
        raise UsageError("startingOffsets: what a batch reads lies before the latest")
    end = _place(options, "endingOffsets", "endingTimestamp", "latest", log)
    if end == "earliest":
        raise UsageError("endingOffsets: nothing lies before the earliest")
    most, least = options.get("maxOffsetsPerTrigger"), options.get("minOffsetsPerTrigger")
    delay_us = _named("maxTriggerDelay", parse_duration, options.get("maxTriggerDelay", f"{TRIGGER_DELAY_S:g}s"))
    return SourceOptions(
        _access(options),
        filters,
        where,
        start,
        end,
        _count(most, "maxOffsetsPerTrigger", 1 << 62) if most is not None else None,
        _count(options.get("minPartitions", _tasks(is_stream)), "minPartitions", PARTITIONS_MAX),
        _truth(options, "failOnDataLoss", True),
        _truth(options, "includeHeaders", False),
        log,
        _pattern(options),
        _count(least, "minOffsetsPerTrigger", 1 << 62) if least is not None else 0,
        delay_us / 1e6,
        assigned,
    )


def _tasks(is_stream: bool) -> str:
    """The usual `minPartitions`. A batch is divided by the processors of the machine that plans it. A micro-batch must
    be divided in the same way when it is repeated, perhaps on another machine."""
    return "1" if is_stream else str(min(os.cpu_count() or 1, PARTITIONS_MAX))


def _log_of(options: Mapping[str, str]) -> tuple[str | None, tuple[int, ...]]:
    """The log to read, by `log` or by `assign`, which is `{"bank": [0, 2]}`, and the partitions; none: all of them."""
    if "assign" not in options:
        return _named("log", check_log_name, options["log"]) if "log" in options else None, ()
    try:
        ((log, partitions),) = msgspec.json.decode(options["assign"], type=dict[str, list[int]]).items()
    except (msgspec.MsgspecError, ValueError):
        raise UsageError(f'assign: {options["assign"]} is not of the form {{"LOG": [0]}}') from None
    if not partitions or not all(0 <= number < PARTITIONS for number in partitions):
        raise UsageError(f"assign: {partitions} are no partitions, which are numbered from 0")
    if options.get("log", log) != log:
        raise UsageError(f"assign: it names the log {log}, and the option log {options['log']}")
    return _named("assign", check_name, log, "name of a log"), tuple(sorted(set(partitions)))


def _filters_of(options: Mapping[str, str], log: str | None) -> str:
    """`subscribe`; of a log, all that it keeps may be read without it."""
    if log is None or "subscribe" in options:
        return _needed(options, "subscribe")
    return _EVERYTHING


def _pattern(options: Mapping[str, str]) -> str | None:
    pattern = options.get("subscribePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"subscribePattern: {pattern!r} is no regular expression: {error}") from None
    return pattern


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    _check_known(options, _SINK)
    topic, publisher = options.get("topic"), options.get("publisher")
    if topic is not None:
        check_topic(topic)
    if publisher is not None:
        check_name(publisher, "publisher")
    guarantee = Guarantee.parse(options.get("guarantee", Guarantee.CAUSAL.label))
    return SinkOptions(_access(options), topic, guarantee, publisher, options.get("ledger") or None)


def _access(options: Mapping[str, str]) -> AccessOptions:
    servers = tuple(str(address) for address in parse_addresses(_needed(options, "servers")))
    if "login" in options and "token" in options:
        raise UsageError("login and token say the same: a file with NAME:SECRET, and NAME:SECRET itself; give one")
    login = options.get("token")
    if "login" in options:
        try:
            login = Path(options["login"]).read_text().strip()
        except (OSError, UnicodeError) as error:
            raise UsageError(f"login {options['login']}: {getattr(error, 'strerror', 'it is no text')}") from None
    if login is not None:
        read_login(login)
    try:
        timeout_s = float(options.get("timeout", TIMEOUT_S))
    except ValueError:
        timeout_s = 0.0
    if not 0 < timeout_s < 1e6:
        raise UsageError(f"timeout: {options['timeout']!r} is no number of seconds")
    return AccessOptions(servers, options.get("tls") or None, login, timeout_s)


def _check_known(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    lowered = {name.lower() for name in known}
    for name in options:
        if name.lower() not in lowered and name.lower() not in _OF_SPARK:
            raise UsageError(f"there is no option {name!r} here; there are {', '.join(known)}")


def _needed(options: Mapping[str, str], name: str) -> str:
    value = options.get(name, "").strip()
    if not value:
        raise UsageError(f"the option {name} is needed")
    return value


def _place(options: Mapping[str, str], name: str, by_time: str, default: str, log: str | None) -> Start:
    """A place in the past. As in Kafka, a time in milliseconds since 1970 wins against an offset."""
    if by_time in options:
        time_ms = _count(options[by_time], by_time, 1 << 47)
        return datetime.fromtimestamp(time_ms / 1_000, UTC)
    place = _named(name, read_place, options.get(name, default))
    if log is not None and isinstance(place, Offset):
        if place.journal == log:
            place = msgspec.structs.replace(place, journal=f"{LOG_PREFIX}{log}")
        if place.journal != f"{LOG_PREFIX}{log}":
            raise UsageError(f"{name}: {place} is no offset of the log {log}")
    return place


def _named(name: str, check: Callable[..., T], *values: str | None) -> T:
    """What is wrong, and in which option."""
    try:
        return check(*values)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _count(text: str, name: str, most: int) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= most:
        raise UsageError(f"{name}: {text!r} is no number from 1 to {most}")
    return int(text)


def _truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"{name}: {text!r} is neither true nor false")
    return text == "true"


class SourceError(ResproutError):
    """Nothing can be read from there, for now or for good."""


class DataLossError(SourceError):
    """Something that the query had not read is gone, or may be."""


class SinkError(ResproutError):
    """A batch was not published, or it is not known whether all of it was."""
