"""A broker's way to its parent: an address is given, a name is needed."""

import asyncio
from collections.abc import Callable
from typing import Final

from resprout.core.errors import UsageError
from resprout.net.address import Address
from resprout.net.discover import UnreachableError, who_is
from resprout.net.frames import Here

ANSWER_SECONDS_MAX: Final = 5.0
RETRY_SECONDS_MIN: Final = 0.05
RETRY_SECONDS_MAX: Final = 2.0
"""Between attempts: doubled from the first to the last."""


async def find_parent(address: Address, me: str, say: Callable[[str], None]) -> Here:
    """The broker at the address, however long it takes to be there; `say` is told once that it is waited for.

    UsageError when waiting is of no use: no such host, something else listens there, or no broker can be its child.
    """
    waited = False
    delay_s = RETRY_SECONDS_MIN
    while True:
        try:
            return _checked(await who_is(address, ANSWER_SECONDS_MAX, me), address, me)
        except UnreachableError as error:
            if error.hopeless:
                raise UsageError(f"parent {error}") from None
            if not waited:
                waited = True
                say(f"{me} waits for its parent: {error}")
        await asyncio.sleep(delay_s)
        delay_s = min(RETRY_SECONDS_MAX, delay_s * 2)


def _checked(here: Here, address: Address, me: str) -> Here:
    if here.role != "broker":
        raise UsageError(f"parent {address}: {here.name} is a {here.role}; only a broker can be a parent")
    if here.name == me:
        raise UsageError(f"parent {address}: the broker there is called {me}, too; every broker has a name of its own")
    return here
