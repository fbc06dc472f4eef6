"""Arguments of publications that are retained or delayed, expire, or have an id, and of subscriptions that begin with
last values."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from resprout.client.arguments import check_count, check_flag, check_seconds, wrong
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, GuaranteeName
from resprout.core.limits import AttributeValue, check_keys
from resprout.core.message_fields import NUMBER_MAX
from resprout.core.message_ids import MESSAGE_ID_BYTES
from resprout.core.timing import DUE, EXPIRES, MESSAGE_ID, PRIORITY, PRIORITY_MAX, PUBLISHED
from resprout.net.event_loop import wall_us
from resprout.values.rows import KV_PREFIX, RETAIN_KEY

DELAY_SECONDS_MAX: Final = 366 * 86_400
"""The longest delay."""


class Handling(msgspec.Struct, frozen=True):
    """How a publication is handled; nothing special unless something is set."""

    retain: bool = False
    ttl: float | None = None
    delay: float | None = None
    deliver_at: float | datetime | None = None
    priority: int | None = None
    message_id: str | None = None

    @property
    def is_special(self) -> bool:
        is_timed = self.ttl is not None or self.delay is not None or self.deliver_at is not None
        return self.retain is not False or is_timed or self.priority is not None or self.message_id is not None


class HandledArguments(msgspec.Struct, frozen=True):
    """What is published instead."""

    guarantee: GuaranteeName | Guarantee
    keys: Sequence[str]
    attributes: Mapping[str, AttributeValue] | None


def expiry_of(ttl: float | None) -> int | None:
    """Return when something expires that lives for so many seconds from now."""
    seconds = check_seconds(ttl, "ttl")
    if seconds is None:
        return None
    if seconds <= 0:
        raise UsageError(f"ttl={ttl!r}: more than 0 seconds")
    return min(wall_us() + int(seconds * 1e6), NUMBER_MAX)


def handled_arguments(
    topic: str,
    guarantee: GuaranteeName | Guarantee,
    keys: Sequence[str],
    attributes: Mapping[str, AttributeValue] | None,
    handling: Handling,
) -> HandledArguments:
    """Return the guarantee, keys and attributes of a publication that is retained or delayed, expires, or has an id."""
    told: dict[str, AttributeValue] = dict(attributes) if attributes is not None else {}
    keys = check_keys(keys)
    due_us = _due_of(handling.delay, handling.deliver_at)
    if check_flag(handling.retain, "retain"):
        if due_us is not None:
            raise UsageError("retain=True: a last value is not delayed; leave out delay and deliver_at")
        if isinstance(topic, str) and topic.startswith(KV_PREFIX):
            raise UsageError(f"topic={topic!r} belongs to a bucket: write it with client.kv(...)")
        guarantee, keys = Guarantee.TOTAL, (*keys, RETAIN_KEY)
    else:
        told[PUBLISHED] = wall_us()
    if (expires_us := expiry_of(handling.ttl)) is not None:
        told[EXPIRES] = expires_us
    if handling.priority is not None:
        told[PRIORITY] = check_count(handling.priority, "priority", 0, PRIORITY_MAX)
    if handling.message_id is not None:
        told[MESSAGE_ID] = _checked_id(handling.message_id)
    if due_us is not None:
        if keys:
            raise UsageError(f"keys={list(keys)!r}: a delayed message has no order, so it has no keys")
        guarantee, told[DUE] = Guarantee.EVENTUAL, due_us
    return HandledArguments(guarantee, keys, told)


def _checked_id(message_id: str) -> str:
    if not isinstance(message_id, str) or not 0 < len(message_id.encode("utf-8", "replace")) <= MESSAGE_ID_BYTES:
        raise wrong("message_id", message_id, f"a text of 1 to {MESSAGE_ID_BYTES} bytes")
    return message_id


def _due_of(delay: float | None, deliver_at: float | datetime | None) -> int | None:
    if deliver_at is None:
        seconds = check_seconds(delay, "delay")
        if seconds is None:
            return None
        due_us = wall_us() + int(seconds * 1e6)
    elif delay is not None:
        raise UsageError(f"delay={delay!r} and deliver_at={deliver_at!r}: give one of them")
    else:
        due_us = int(_seconds_at(deliver_at) * 1e6)
    if due_us > wall_us() + DELAY_SECONDS_MAX * 1_000_000:
        raise UsageError(f"a message is delayed for at most {DELAY_SECONDS_MAX // 86_400} days")
    return max(due_us, 1)


def _seconds_at(deliver_at: float | datetime) -> float:
    allowed = "seconds since 1970, or a datetime with a time zone"
    if isinstance(deliver_at, datetime):
        if deliver_at.tzinfo is None:
            raise wrong("deliver_at", deliver_at, allowed)
        return deliver_at.timestamp()
    if isinstance(deliver_at, bool) or not isinstance(deliver_at, int | float) or not 0 <= deliver_at < 1e12:
        raise wrong("deliver_at", deliver_at, allowed)
    return float(deliver_at)


def with_time(attributes: Mapping[str, AttributeValue] | None) -> dict[str, AttributeValue]:
    """Return the attributes with the time of publication."""
    return {**(attributes or {}), PUBLISHED: wall_us()}


def check_retained(retained: bool, arguments: Mapping[str, object]) -> None:
    """UsageError for what a subscription that begins with last values does not have."""
    check_flag(retained, "retained")
    for name, value in arguments.items():
        if retained and value is not None:
            raise wrong(name, value, "is not for subscriptions that begin with last values (retained)")
