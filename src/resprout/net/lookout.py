"""Looks for other networks that brokers of this one have got into: a root that was started again without knowing
anybody has founded one of its own, and everybody who is served by it believes that all is well.

Whoever is known by address and is not in the tree any more is asked from time to time which network it is in, and is
told ours by the same question. So both sides notice, and say so; nobody does anything about it, because only people
know which of the two is to go on.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from resprout.net.address import Address
from resprout.net.discover import UnreachableError, who_is
from resprout.net.identity.network_key import NetworkKey
from resprout.net.tls.keyring import Keyring

LOOK_SECONDS: Final = 10.0
"""Between two rounds."""
ANSWER_SECONDS_MAX: Final = 2.0
ASKED_MAX: Final = 4
"""In one round; the others have their turn later."""
SAID_MAX: Final = 64
"""Lines in one process, because anybody may ask."""
STRANGERS_MAX: Final = 16
"""Brokers in other networks that are remembered."""


class Lookout:
    """`missing` tells who is known and not in the tree, with where they listen; `say` is told once of each stranger."""

    def __init__(
        self,
        name: str,
        missing: Callable[[], Iterable[tuple[str, Address]]],
        say: Callable[[str], None],
        keyring: Keyring | None = None,
        key: NetworkKey | None = None,
    ) -> None:
        self.network = ""
        """The own one; empty while there is none."""
        self._name = name
        self._missing = missing
        self._say = say
        self._keyring = keyring
        self._key = key
        self._turn = 0
        self._said = 0
        self._strangers: dict[str, str] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """For people, as long as it is so as far as is known."""
        return tuple(self._line(name, network) for name, network in self._strangers.items() if network != self.network)

    def met(self, name: str, network: str) -> None:
        """A broker says which network it is in."""
        if not name or not network or not self.network:
            return
        if network == self.network:
            self._strangers.pop(name, None)
        elif self._strangers.get(name) != network:
            self._strangers.pop(name, None)
            self._strangers[name] = network
            if len(self._strangers) > STRANGERS_MAX:
                del self._strangers[next(iter(self._strangers))]
            self._said += 1
            if self._said <= SAID_MAX:
                self._say(self._line(name, network))

    async def watch(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.network:
                await asyncio.gather(*(self._ask(name, address) for name, address in self._next()))

    def _next(self) -> list[tuple[str, Address]]:
        missing = list(self._missing())
        if not missing:
            return []
        self._turn %= len(missing)
        chosen = [*missing[self._turn :], *missing[: self._turn]][:ASKED_MAX]
        self._turn += len(chosen)
        return chosen

    async def _ask(self, name: str, address: Address) -> None:
        try:
            here = await who_is(address, ANSWER_SECONDS_MAX, self._name, self.network, self._keyring, self._key)
        except UnreachableError:
            self._strangers.pop(name, None)
            return
        if here.role == "broker" and here.name == name:
            self.met(name, here.network)

    def _line(self, name: str, network: str) -> str:
        return (
            f"{name} is in another network, {network}, and this one is {self.network}: "
            f"stop those of one of them, and start them again with --join of the other"
        )
