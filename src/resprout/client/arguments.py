"""Check the arguments of public calls, and limit how long a call waits.

A wrong argument raises UsageError at the call, before anything was done. The text names the argument, the value and
what is allowed: `timeout=-1: seconds, 0 or more, or None to wait without limit`.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from resprout.client.errors import TimedOutError
from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.core.limits import shown as shown
from resprout.filters.predicate import parse_predicate

SECONDS: Final = "seconds, 0 or more, or None to wait without limit"


def wrong(argument: str, value: object, allowed: str) -> UsageError:
    """Return the error for a wrong argument."""
    return UsageError(f"{argument}={shown(value)}: {allowed}")


def check_seconds(value: Any, argument: str = "timeout") -> float | None:
    """Return a timeout in seconds; None, like infinity, is no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:  # NaN is not
        raise wrong(argument, value, SECONDS)
    return None if math.isinf(value) else float(value)


def check_flag(value: Any, argument: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(argument, value, "True or False")
    return value


def check_count(value: Any, argument: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise wrong(argument, value, f"a whole number from {least} to {most}")
    return value


def check_kind(value: Any, argument: str, kinds: type[Any] | tuple[type[Any], ...], allowed: str) -> None:
    """UsageError unless the value is None or one of these."""
    if value is not None and not isinstance(value, kinds):
        raise wrong(argument, value, allowed)


def check_handler(value: Any, argument: str) -> None:
    if value is not None and not callable(value):
        raise wrong(argument, value, "a function, or None")


def check_filter_and_where(filter: Any, where: Any, argument: str = "filter") -> None:
    """UsageError for a filter or a condition that is none."""
    if not isinstance(filter, str):
        raise wrong(argument, filter, "a topic filter, such as 'orders/+' or 'orders/#'")
    if where is not None and not isinstance(where, str):
        raise wrong("where", where, "a condition over attributes, such as 'amount > 100', or None")
    parse_predicate(filter, None)
    if where is not None:
        try:
            parse_predicate(filter, where)
        except UsageError as error:
            raise UsageError(f"where={shown(where)}: {error}") from None


def check_word(value: Any, argument: str, words: Iterable[str]) -> str:
    allowed = tuple(words)
    if not isinstance(value, str) or value not in allowed:
        raise wrong(argument, value, f"one of {', '.join(map(repr, allowed))}")
    return value


def check_own_name(value: Any, argument: str, what: str) -> str:
    """The name of a client or of a durable subscription. NameRefusedError, which says what is allowed."""
    return check_name(value, f"{argument}: {what}")


@contextlib.asynccontextmanager
async def time_limit(timeout: float | None, failure: str) -> AsyncIterator[None]:
    """Raise TimedOutError when the block takes longer: "`failure` within 5 s"."""
    try:
        async with asyncio.timeout(timeout) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise  # the block itself ended with it
        raise TimedOutError(f"{failure} within {timeout:g} s") from None
