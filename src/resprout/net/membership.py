"""The network of a broker: how the broker finds it, who is in it, and what keeps the broker from a place in it.

At the start a broker has addresses and needs names (`look_for_company`). It asks its parent and all contacts at the
same time, repeatedly, until one answers. The first answer shows that the network is there; the others have a short
while to answer too. So a broker starts without its parent when a contact is up, and a frozen contact never delays it.

`Membership` lasts over the lives of a broker. It records who is in the network, looks for brokers that were lost, and
asks at given addresses while the broker has no place.

`Lookout` looks for other networks that brokers of this one have got into: a root that restarted without knowing any
other broker founds a network of its own, and the brokers and clients below it notice nothing. A broker that is known by
address and is no longer in the tree is asked from time to time which network it is in, and learns ours by the same
question. Both sides log it; neither acts on it, because only people know which of the two is to continue.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.contract import Note, Remember, Request
from resprout.core.errors import ResproutError, UsageError
from resprout.edge.requests import LookForRequest
from resprout.journal.interface import DiskError
from resprout.links.handshake import shorten
from resprout.net.address import Address, AddressBook
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.data_folder import DataFolder
from resprout.net.discover import UnreachableError, who_is
from resprout.net.door import Door
from resprout.net.host import Host
from resprout.net.identity.proofs import NetworkKey
from resprout.net.sessions import Here, Who, believed
from resprout.net.tls import Keyring

ANSWER_SECONDS_MAX: Final = 5.0
COMPANY_SECONDS: Final = 1.0
"""How long the others may take to answer after the first."""
MEMBER: Final = "member"
RETRY_SECONDS_MIN: Final = 0.05
RETRY_SECONDS_MAX: Final = 2.0
"""Between attempts: doubled from the first to the last."""

LOOK_SECONDS: Final = 10.0
"""Between two rounds."""
LOOK_ANSWER_SECONDS_MAX: Final = 2.0
ASKED_MAX: Final = 4
"""In one round; the others have their turn later."""
SAID_MAX: Final = 64
"""Lines in one process, because anybody may ask."""
STRANGERS_MAX: Final = 16
"""Brokers in other networks that are remembered."""

SEEK_SECONDS: Final = 2.0
"""Between two rounds of asking who listens where others of the remembered network may be."""


class FoundCompany(msgspec.Struct, frozen=True):
    """Who answered."""

    parent: str | None
    peers: dict[str, Address]
    """Where each of them listens, by name, the parent first."""
    met: int
    """The latest incarnation of the asker that any of them has met."""

    @property
    def contacts(self) -> tuple[str, ...]:
        return tuple(name for name in self.peers if name != self.parent)


async def look_for_company(
    parent: Address | None,
    contacts: Sequence[Address],
    me: str,
    stack: str,
    say: Callable[[str], None],
    members: Sequence[Address],
    patience_s: float | None,
    keyring: Keyring | None = None,
    only_placed: bool = False,
    key: NetworkKey | None = None,
    has_rules: bool = False,
    max_payload: int = limits.PAYLOAD_BYTES,
) -> FoundCompany | None:
    """Those who listen there; `say` is told once who is waited for. `members` were in the network when this broker was:
    perhaps something else listens there by now. Without `patience_s`, however long it takes until one does. With it,
    for a broker that does without: None when nobody has answered by then, or when all hosts say that nobody listens.
    `keyring`, `key`: what it proves itself with. `has_rules`: it knows what clients may do. `only_placed`: one that
    looks for its network itself does not count. `max_payload`: bytes that a payload may have at this broker.

    UsageError when waiting is of no use: no such host, something else listens there, or a broker of the same name, of
    another stack, or with another `max_payload`.
    """
    asked = [(address, "parent") for address in (parent,) if address is not None]
    asked += [(address, "contact") for address in dict.fromkeys(contacts) if address != parent]
    asked += [(address, MEMBER) for address in dict.fromkeys(members) if address != parent and address not in contacts]
    waited = False
    delay_s = RETRY_SECONDS_MIN
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_s if patience_s is not None else None
    asker = _Asker(me, stack, keyring, key, has_rules, max_payload)
    while True:
        answers, refusals = await _ask_all(asked, asker)
        if only_placed:
            answers = [(address, here) for address, here in answers if here.network]
        if answers:
            _compare(answers, say)
            return _company(answers, parent)
        if until is not None and (loop.time() >= until or all(refused for _, _, refused in refusals)):
            return None
        final = [line for line, is_retryable, _ in refusals if not is_retryable]
        if len(final) == len(asked) and not members:
            raise UsageError(final[0])
        if not waited:
            waited = True
            whom = "its parent" if parent is not None else "a broker to join" if contacts else "its network"
            reasons = "; ".join(line.split(" ", 1)[1] for line, _, _ in refusals)
            say(f"{me} waits for {whom}: {reasons}")
        await asyncio.sleep(delay_s)
        delay_s = min(RETRY_SECONDS_MAX, delay_s * 2)


async def _ask_all(
    asked: Sequence[tuple[Address, str]], asker: "_Asker"
) -> tuple[list[tuple[Address, Here]], list[tuple[str, bool, bool]]]:
    """Return the answers in the order of asking, and for each address without one the reason, whether asking again may
    help, and whether the host says that no process listens there."""
    tasks = [asyncio.create_task(_ask(address, what, asker)) for address, what in asked]
    try:
        async with asyncio.timeout(None) as patience:
            for next_one in asyncio.as_completed(tasks):
                with contextlib.suppress(ResproutError):
                    await next_one
                    if patience.when() is None:
                        patience.reschedule(asyncio.get_running_loop().time() + COMPANY_SECONDS)
    except TimeoutError:
        pass  # who has not answered by now is not waited for
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    answers: list[tuple[Address, Here]] = []
    refusals: list[tuple[str, bool, bool]] = []
    for (address, what), task in zip(asked, tasks, strict=True):
        if task.cancelled():
            refusals.append((f"{what} {address}: no answer in time", True, False))
        elif (error := task.exception()) is None:
            answers.append((address, task.result()))
        elif isinstance(error, UnreachableError):
            refusals.append((f"{what} {error}", error.retryable, error.refused))
        else:
            raise error
    return answers, refusals


class _Asker(msgspec.Struct, frozen=True):
    """The broker that looks for others."""

    name: str
    stack: str
    keyring: Keyring | None
    key: NetworkKey | None
    has_rules: bool
    max_payload: int


async def _ask(address: Address, what: str, asker: _Asker) -> Here:
    me, stack = asker.name, asker.stack
    here = await who_is(address, ANSWER_SECONDS_MAX, me, keyring=asker.keyring, key=asker.key)
    is_of_another = here.role == "broker" and here.stack not in ("", stack)
    if what == MEMBER and (here.role != "broker" or here.name == me or is_of_another):
        raise UnreachableError(f"{address}: another broker listens there now")
    if here.role != "broker":
        raise UsageError(f"{what} {address}: {here.name} is a {here.role}; only a broker can be a {what}")
    if here.name == me:
        raise UsageError(f"{what} {address}: the broker there is called {me}, too; every broker has a name of its own")
    if is_of_another:  # neither would understand a word of the other
        theirs = repr(shorten(here.stack))
        raise UsageError(f"{what} {address}: {here.name} has the stack {theirs}, {me} has {stack!r}; a network has one")
    if here.max_payload != asker.max_payload:  # a payload of the one would end the session with the other
        raise UsageError(f"{what} {_differ(address, here, me, asker.max_payload)}")
    if here.has_key and asker.key is None:
        raise UsageError(f"{what} {address}: {here.name} believes only brokers with its key: give --network-key FILE")
    if here.has_rules and not asker.has_rules:  # clients of this side would do what the rules forbid
        raise UsageError(f"{what} {address}: {here.name} has rules, and {me} needs the same: give --rules FILE")
    if here.has_rules and not here.has_key and asker.keyring is None:
        every = "give all of them --network-key or --tls"
        raise UsageError(f"{what} {address}: {here.name} has rules and can check no broker: {every}")
    return here


def _differ(address: Address, here: Here, me: str, max_payload: int) -> str:
    limits_of_both = f"{here.name} accepts payloads of {here.max_payload} bytes, {me} of {max_payload}"
    return f"{address}: {limits_of_both}; set the same max_payload at all brokers"


def _compare(answers: Sequence[tuple[Address, Here]], say: Callable[[str], None]) -> None:
    """Those who are asked may have got into two networks; whoever answers first is joined all the same."""
    networks: dict[str, str] = {}
    for _, here in answers:
        if here.network:
            networks.setdefault(here.network, here.name)
    if len(networks) > 1:
        told = " and ".join(f"{name} is in {network}" for network, name in networks.items())
        say(f"there are {len(networks)} networks: {told}")


def _company(answers: Sequence[tuple[Address, Here]], parent: Address | None) -> FoundCompany:
    above = next((here.name for address, here in answers if address == parent), None)
    peers = {here.name: address for address, here in reversed(answers)}
    return FoundCompany(above, dict(reversed(peers.items())), max(believed(here.met) for _, here in answers))


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
            here = await who_is(address, LOOK_ANSWER_SECONDS_MAX, self._name, self.network, self._keyring, self._key)
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


class Membership:
    """Of one broker. `folder`: where it is written down, if anywhere. `host` returns the host of the current life,
    `failed` is told of a folder that cannot be written to at all."""

    def __init__(
        self,
        spec: BrokerToRun,
        stack: str,
        max_payload: int,
        book: AddressBook,
        folder: DataFolder | None,
        door: Door,
        host: Callable[[], Host],
        heard: Callable[[Note], None],
        failed: Callable[[DiskError], None],
    ) -> None:
        self._spec = spec
        self._stack = stack
        self._max_payload = max_payload
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
                    if not error.retryable and str(error) != told:
                        told = str(error)
                        self._heard(Note("note", {"detail": told}))
                    continue
                if here.role != "broker" or here.name == name or here.stack not in ("", self._stack):
                    continue
                if here.max_payload != self._max_payload:
                    trouble = _differ(address, here, name, self._max_payload)
                    if trouble != told:
                        told = trouble
                        self._heard(Note("note", {"detail": told}))
                else:
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
