"""Arguments of retained publications, and of subscriptions that begin with last values."""

from collections.abc import Mapping, Sequence
from time import time_ns

from resprout.client.arguments import check_flag, check_seconds, wrong
from resprout.core.errors import UsageError
from resprout.core.limits import AttributeValue, check_keys
from resprout.core.message_fields import NUMBER_MAX
from resprout.values.rows import EXPIRES, KV_PREFIX, RETAIN_KEY


def expiry_of(ttl: float | None) -> int | None:
    """Return when something expires that lives for so many seconds from now."""
    seconds = check_seconds(ttl, "ttl")
    if seconds is None:
        return None
    if seconds <= 0:
        raise UsageError(f"ttl={ttl!r}: more than 0 seconds")
    return min(time_ns() // 1000 + int(seconds * 1e6), NUMBER_MAX)


def retained_arguments(
    topic: str, keys: Sequence[str], attributes: Mapping[str, AttributeValue] | None, retain: bool, ttl: float | None
) -> tuple[tuple[str, ...], dict[str, AttributeValue]]:
    """Return the keys and attributes of a retained publication."""
    if not check_flag(retain, "retain"):
        raise UsageError(f"ttl={ttl!r} is for retained publications: give retain=True as well")
    if isinstance(topic, str) and topic.startswith(KV_PREFIX):
        raise UsageError(f"topic={topic!r} belongs to a bucket: write it with client.kv(...)")
    told: dict[str, AttributeValue] = dict(attributes) if attributes is not None else {}
    if (expires_us := expiry_of(ttl)) is not None:
        told[EXPIRES] = expires_us
    return (*check_keys(keys), RETAIN_KEY), told


def check_retained(retained: bool, arguments: Mapping[str, object]) -> None:
    """UsageError for what a subscription that begins with last values does not have."""
    check_flag(retained, "retained")
    for name, value in arguments.items():
        if retained and value is not None:
            raise wrong(name, value, "is not for subscriptions that begin with last values (retained)")
