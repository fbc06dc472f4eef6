"""What a user may say with `option(...)`, checked where the query is planned: a wrong word there is one clear line.

Names are Kafka's where the meaning is the same. Spark hands all of them over in small letters, with some of its own.
Spark shows the last line of an error, so each error is one line that says what and where.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from resprout.client.connect import parse_addresses
from resprout.core.errors import ResproutError, UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.names import check_name, check_topic
from resprout.filters.predicate import check_filter, parse_predicate
from resprout.net.identity.scram import read_login
from resprout.spark.offsets import ReadPlace, read_place

T = TypeVar("T")

_OF_SPARK: Final = frozenset(("path", "checkpointlocation", "queryname", "outputmode", "mergeschema"))
"""What Spark adds by itself."""
_ACCESS: Final = ("servers", "tls", "login", "token", "timeout")
_SOURCE: Final = (
    *_ACCESS, "subscribe", "where", "startingOffsets", "endingOffsets", "maxOffsetsPerTrigger", "minPartitions",
    "failOnDataLoss", "includeHeaders",
)  # fmt: skip
_SINK: Final = (*_ACCESS, "topic", "guarantee", "publisher", "ledger")

TIMEOUT_S: Final = 60.0
"""So long a broker that does not answer is tried again."""
PARTITIONS_MAX: Final = 10_000


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
    start: ReadPlace = "latest"
    end: ReadPlace = "latest"
    positions_max: int | None = None
    """In one micro-batch."""
    partitions_min: int = 1
    fails_on_loss: bool = True
    headers: bool = False


class SinkOptions(msgspec.Struct, frozen=True):
    access: AccessOptions
    topic: str | None
    guarantee: Guarantee
    publisher: str | None
    ledger: str | None


def source_options(options: Mapping[str, str], is_stream: bool) -> SourceOptions:
    """UsageError for whatever is wrong with them."""
    _check_known(options, _SOURCE)
    filters = tuple(dict.fromkeys(one.strip() for one in _needed(options, "subscribe").split(",")))
    where = options.get("where") or None
    for topic_filter in filters:
        _named("subscribe", check_filter, topic_filter)
    _named("where", parse_predicate, filters[0], where)
    if is_stream and "endingOffsets" in options:
        raise UsageError("endingOffsets: a stream has no end; use trigger(availableNow=True), or spark.read")
    start = _place(options, "startingOffsets", "latest" if is_stream else "earliest")
    if start == "latest" and not is_stream:
        raise UsageError("startingOffsets: what a batch reads lies before the latest")
    end = _place(options, "endingOffsets", "latest")
    if end == "earliest":
        raise UsageError("endingOffsets: nothing lies before the earliest")
    most = options.get("maxOffsetsPerTrigger")
    return SourceOptions(
        _access(options),
        filters,
        where,
        start,
        end,
        _count(most, "maxOffsetsPerTrigger", 1 << 62) if most is not None else None,
        _count(options.get("minPartitions", "1"), "minPartitions", PARTITIONS_MAX),
        _truth(options, "failOnDataLoss", True),
        _truth(options, "includeHeaders", False),
    )


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


def _place(options: Mapping[str, str], name: str, default: str) -> ReadPlace:
    return _named(name, read_place, options.get(name, default))


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
