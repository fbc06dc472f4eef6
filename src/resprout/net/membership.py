"""What a broker knows about its network: who is in it, who is missing, and what keeps the broker from a place in it.

`Membership` lasts over the lives of a broker. It writes down who is in the network, looks for others that the broker
has lost, and asks at given addresses while the broker has no place.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from resprout.core.contract import Note, Remember, Request
from resprout.edge.requests import LookForRequest
from resprout.journal.files import DiskError
from resprout.net.address import Address, AddressBook
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.data_folder import DataFolder
from resprout.net.discover import UnreachableError, who_is
from resprout.net.door import Door
from resprout.net.frames import Who
from resprout.net.host import Host
from resprout.net.network_search import Lookout

SEEK_SECONDS: Final = 2.0
"""Between two rounds of asking who listens where others of the remembered network may be."""


class Membership:
    """Of one broker. `folder`: where it is written down, if anywhere. `host` returns the host of the current life,
    `failed` is told of a folder that cannot be written to at all."""

    def __init__(
        self,
        spec: BrokerToRun,
        stack: str,
        book: AddressBook,
        folder: DataFolder | None,
        door: Door,
        host: Callable[[], Host],
        heard: Callable[[Note], None],
        failed: Callable[[DiskError], None],
    ) -> None:
        self._spec = spec
        self._stack = stack
        self._book = book
        self._folder = folder
        self._door = door
        self._host = host
        self._heard = heard
        self._failed = failed
        self.memory = spec.memory
        """What the next machine is told of the last one."""
        self.barred = spec.barred
        self.waits_for = ""
        """What keeps it from its network, and what to do about it; empty when it has a place."""
        self._company: tuple[str, ...] = ()
        self._unremembered: Remember | None = None
        """What could not be written, to be tried again."""
        self._lookout = Lookout(spec.name, self._missing, self._tell_two_networks, door.keyring, door.network_key)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def notices(self) -> tuple[str, ...]:
        return self._lookout.notices

    def watch(self) -> None:
        """Look for other networks, until `close`."""
        self._tasks.append(asyncio.get_running_loop().create_task(self._lookout.watch()))

    def seek(self) -> None:
        """Look for the own network where the broker was told to, until `close`."""
        if self._spec.seek:
            self._tasks.append(asyncio.get_running_loop().create_task(self._seek()))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            await asyncio.wait((task,))

    def remember(self, effect: Remember) -> None:
        """Who is in the tree; with a folder also for the processes after this one. It is on disk when this returns."""
        self._company = effect.names if effect.placed else ()
        if effect.placed:
            self._host().network = self._lookout.network = effect.network
        if self._folder is not None:
            self.memory = effect.memory
            places = [(name, self._book.find(name)) for name in effect.names]
            members = {name: str(address) for name, address in places if address is not None}
            try:
                self._folder.remember(effect.network, members, effect.memory)
                self._unremembered = None
            except DiskError as error:
                if self._unremembered is None:
                    detail = f"who is in the network is not written down: {error}; it is tried again"
                    self._heard(Note("note", {"detail": detail}))
                self._unremembered = effect
            except OSError as error:  # not even what was there before can be set aside
                self._failed(DiskError(f"{self._folder.path}: {error.strerror or error}"))

    def retry(self) -> None:
        """Write down what could not be written before."""
        if self._unremembered is not None:
            self.remember(self._unremembered)

    def asked(self, who: Who) -> None:
        """Brokers ask whom they have known, even if those have forgotten them."""
        self._lookout.met(who.name, who.network)

    def tell_founded(self, network: str) -> None:
        forgets = "" if self._folder is not None else "; without --data or --join it founds another one at every start"
        self._heard(Note("founded", {"detail": f"{self._spec.name} begins the network {network}{forgets}"}))

    def with_advice(self, note: Note) -> Note:
        """What it waits for, and what an operator can do."""
        command = f": {self._spec.force}" if self._spec.force else ""
        advice = f"if they never return, go on without them by starting one broker with --force-found{command}"
        self.waits_for = f"{note.columns['detail']}; {advice}"
        return Note(note.kind, {"detail": self.waits_for})

    async def _seek(self) -> None:
        """While it looks for its network: ask who listens where it was told, and let it speak to them."""
        told, name, door = "", self._spec.name, self._door
        while True:
            for address in self._spec.seek if not self._host().network else ():
                try:
                    here = await who_is(address, SEEK_SECONDS, name, keyring=door.keyring, key=door.network_key)
                except UnreachableError as error:
                    if error.hopeless and str(error) != told:
                        told = str(error)
                        self._heard(Note("note", {"detail": told}))
                    continue
                if here.role == "broker" and here.name != name and here.stack in ("", self._stack):
                    self._book.locate(here.name, str(address))
                    self._host().handle(Request(LookForRequest((here.name,))))
            await asyncio.sleep(SEEK_SECONDS)

    def _tell_two_networks(self, line: str) -> None:
        self._heard(Note("two_networks", {"detail": line}))

    def _missing(self) -> list[tuple[str, Address]]:
        """Who is known, and not in the tree as far as this broker sees it."""
        aside = {self._spec.name, *self._company, *self.barred}
        known = [(name, self._book.find(name)) for name in self._book if name not in aside]
        return [(name, address) for name, address in known if address is not None]
