"""Attempts to connect, each of which ends in a connection or in a word about why there is none."""

import asyncio
from collections.abc import Callable
from typing import Final

from resprout.core.contract import Disconnected
from resprout.net.address import Address, is_refusal, reason_of

CONNECT_SECONDS_MAX: Final = 10.0


class Dials:
    """`where` tells where a peer listens, or why it cannot be reached; `make` makes the connection with it; `fail` is
    told of attempts that lead to none."""

    def __init__(
        self,
        where: Callable[[str], Address | str],
        make: Callable[[str], asyncio.Protocol],
        fail: Callable[[Disconnected], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._where = where
        self._make = make
        self._fail = fail
        self._tasks: set[asyncio.Task[None]] = set()

    def dial(self, peer: str) -> None:
        task = self._loop.create_task(self._dial(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel_all(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _dial(self, peer: str) -> None:
        place = self._where(peer)
        if isinstance(place, str):
            self._fail(Disconnected(0, peer, place))
            return
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await self._loop.create_connection(lambda: self._make(peer), place.host or "localhost", place.port)
        except (OSError, UnicodeError) as error:  # UnicodeError: a host that cannot be a name
            self._fail(Disconnected(0, peer, f"{place}: {reason_of(error)}", is_refusal(error)))
