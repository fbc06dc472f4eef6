"""A broker as a program: a stack's machine behind a listening socket, one life after the other.

A machine that retires ends its life. The next one begins at the same address, under the next incarnation, with a fresh
machine that may ask everybody whom the last one knew for a place; what was persisted is handed to it. A machine that
leaves for good ends the broker.
"""

import asyncio
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from resprout.core.contract import HoldRoles, Machine, Note, Remember, Request, Retire
from resprout.core.errors import ResproutError, UsageError
from resprout.edge.broker.event_record import left_out_record
from resprout.edge.broker.guard import Guard, Permit
from resprout.edge.broker.recorder import EventRecorder
from resprout.edge.messages import HoldTold
from resprout.edge.requests import DRAIN_US, LeaveRequest, LookForRequest
from resprout.edge.rights import may_hear
from resprout.journal.errors import DiskError
from resprout.journal.options import WhenDiskFull
from resprout.journal.spill import SpillSegments
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.account.answering import answer
from resprout.net.account.bookkeeper import Bookkeeper
from resprout.net.address import Address
from resprout.net.advertise import address_to_tell
from resprout.net.bodies import EncodedBodies
from resprout.net.book import AddressBook
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.clock import epoch_us
from resprout.net.data_folder import EVENTS, JOURNAL, DataFolder, open_folder
from resprout.net.descriptors import room_for
from resprout.net.discover import UnreachableError, who_is
from resprout.net.door import Door
from resprout.net.durable import LostEvents
from resprout.net.frames import Here, Who, make_codec
from resprout.net.host import CONNECTIONS_MAX, Host, HostEnd, Upward
from resprout.net.incarnation import believed, incarnation_max
from resprout.net.listen import ListenError, ListeningPlace, take_place
from resprout.net.lookout import Lookout
from resprout.net.room import FULL, LOW, OK, Rooms, StoreRoom
from resprout.net.sessions import random_epoch, with_signs_of_life
from resprout.net.spill_files import UnnamedFiles
from resprout.stacks.shell.shell import Shell
from resprout.stacks.stack import BrokerSeat, Stack

LISTEN_SECONDS_MAX: Final = 10.0
"""For the next life to have the place of the last one again."""
LISTEN_RETRY_SECONDS: Final = 0.05

LIFE_SECONDS_MIN: Final = 5.0
PAUSE_SECONDS_MIN: Final = 0.1
PAUSE_SECONDS_MAX: Final = 5.0
"""Before the next life when the last one was shorter than that: doubled each time from the first to the last."""

ROOM_SECONDS: Final = 1.0
"""Between two looks at how much room there is; every batch that is written looks, too."""
ROOM_RETRY_SECONDS_MIN: Final = 0.1
ROOM_RETRY_SECONDS_MAX: Final = 5.0
"""Between attempts to start on a full disk: doubled from the first to the last."""
ROOM_KINDS: Final = {FULL: "disk_full", LOW: "disk_low", OK: "disk_ok"}
"""Kinds of notes, by the state that a store has now."""
ALL_ROLES: Final = ("client", "broker", "newcomer")

T = TypeVar("T")
SEEK_SECONDS: Final = 2.0
"""Between two rounds of asking who listens where others of the remembered network may be."""


class RunningBroker:
    """Made by `serve`."""

    def __init__(
        self,
        spec: BrokerToRun,
        stack: Stack[Any],
        options: Any,
        links: LinkOptions,
        heard: Callable[[Note], None],
        began: Callable[["RunningBroker"], None],
        folder: DataFolder | None,
        door: Door,
    ) -> None:
        self.name = spec.name
        self.incarnation = spec.incarnation
        self._spec = spec
        self._stack = stack
        self._options = options
        self._links = with_signs_of_life(links)
        self._told = heard
        self._began = began
        self._folder = folder
        self._spilled = UnnamedFiles(folder.path if folder is not None else None)
        self._door = door
        self._codec = make_codec(stack.messages)
        self._book = AddressBook(spec.peers)
        self._barred: Collection[str] = spec.barred
        self.books = Bookkeeper(spec.name, stack, self._book, spec.metered)
        self.books.folder = folder
        self._company: tuple[str, ...] = ()
        self._lookout = Lookout(spec.name, self._missing, self._tell_two_networks, door.keyring)
        self._watching: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self.rooms = self.books.rooms = Rooms(self._room_changed)
        self._held: tuple[str, ...] = ()
        """Roles that are held in this life, because there is no room for what they send."""
        self._unremembered: Remember | None = None
        """What could not be written, to be tried again."""
        self._host: Host | None = None
        self._few_copies = ""
        """What it has said about `safe` that rests on too few brokers."""
        self.waits_for = ""
        """What keeps it from its network, and what to do about it; empty when it has a place."""
        self._memory = spec.memory
        self._seeking: asyncio.Task[None] | None = None
        self._address: Address | None = None
        self._advertised: Address | None = None
        """Where others reach it, as far as was found out last."""
        self._since_s = 0.0
        self._pause_s = 0.0
        self._rebirth: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._trouble: ResproutError | None = None
        self._leaving = False

    @property
    def host(self) -> Host:
        """Of the current life; of the last one, between two."""
        assert self._host is not None, "a broker is started first"
        return self._host

    @property
    def address(self) -> Address:
        """Where it listens, in all its lives."""
        assert self._address is not None, "a broker is started first"
        return self._address

    @property
    def notices(self) -> tuple[str, ...]:
        """What people should know about it, a line each."""
        few = filter(None, (self.waits_for, self._few_copies))
        rooms = [_room_line(store) for store in self.rooms if store.state != OK and store.name != "spill"]
        return (*few, *rooms, *self._lookout.notices)

    async def ended(self) -> None:
        """Until it has left for good. The error when it could not go on."""
        await self._over.wait()
        if self._trouble is not None:
            raise self._trouble

    @property
    def can_leave(self) -> bool:
        """Its stack knows how to go in good order."""
        return self._stack.survives(self._options).leaves

    def leave(self, within_us: int = DRAIN_US) -> None:
        """Ask it to leave the network in good order; `ended` tells when it has."""
        self._leaving = True
        if self._rebirth is not None and not self._rebirth.done():
            self._over.set()  # between two lives: the next one does not begin
            return
        self.host.handle(Request(LeaveRequest(within_us)))

    def bar(self, peers: Collection[str]) -> None:
        """Emulate a cut, see `Host.bar`; it lasts over lives."""
        self._barred = tuple(peers)
        self.host.bar(peers)

    def found(self, places: Mapping[str, Address]) -> None:
        """More brokers of the run listen now, at these addresses: for those that it calls by name."""
        for name, address in places.items():
            if name != self.name:
                self._book.locate(name, str(address))

    async def close(self, farewell: str | None = None) -> None:
        """Ends the life that runs, see `Host.close`, and begins no other."""
        for task in (self._rebirth, self._watching, self._looking, self._seeking):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
        if self._host is not None:
            await self._host.close(farewell)
        self.books.close()
        self._spilled.close()
        if self._folder is not None:
            self.books.folder = None
            self._folder.close()
            self._folder = None

    # -- lives ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """The first life."""
        place = await take_place(self._spec.listen)
        try:
            self._address = place.address
            self._watching = asyncio.get_running_loop().create_task(self._lookout.watch())
            self._watch_rooms()
            await self._live(place, self._spec.parent, self._spec.contacts, self._spec.founds)
            if self._spec.seek:
                self._seeking = asyncio.get_running_loop().create_task(self._seek())
        except BaseException:
            place.close()
            raise

    async def _live(
        self, place: ListeningPlace, parent: str | None, contacts: tuple[str, ...], founds: bool = False
    ) -> None:
        name, spec = self.name, self._spec
        try:
            self._advertised = await address_to_tell(place.address, spec.advertise)
        except UsageError:  # the name of this machine had an address when it started, and will have one again
            if self._advertised is None:
                raise
        told = self._advertised
        if (folder := self._folder) is not None:
            await with_room(lambda: folder.begin_life(self.incarnation), self._heard)
        has_memory = bool(self._memory)
        seat = BrokerSeat(
            name, self.incarnation, parent, contacts, str(told), spec.site, self._make_store,
            self._folder is not None, self._memory, founds, epoch_us(),
        )  # fmt: skip
        seed = secrets.randbits(64)
        self._few_copies = self.waits_for = ""
        machine = self._stack.make_broker(seat, self._options, random.Random(seed))
        recorder = self._recorder(machine)
        node = Links(
            self.books.meter(recorder or machine),
            name=name,
            role="broker",
            incarnation=self.incarnation,
            rng=random.Random(seed + 1),
            options=self._links,
            first_epoch=random_epoch(),
            bodies=EncodedBodies(self._codec),
            incarnation_max=incarnation_max,
            deliveries_last=True,
        )
        host = self._host = Host(
            node,
            self._codec,
            Here(name, "broker", self.incarnation, stack=self._stack.name),
            self._book.find,
            self._upward,
            delays_s=dict(spec.delays_s),
            connections_max=self._room(),
            greetings_max=self._links.greetings_max,
            sessions_max=self._links.sessions_max,
            latest_incarnation=node.latest_incarnation,
            book=self._book,
            records=self._folder.records if self._folder is not None else None,
            events=self._folder.events if self._folder is not None else None,
            rooms=self.rooms,
            missed=self._events_missed,
            gap_record=partial(left_out_mark, self.incarnation),
            ended=self._ended,
            remember=self._remember,
            asked=self._asked,
            notices=lambda: self.notices,
            door=self._door,
            tells=lambda asked: answer(self.books, asked),
        )
        node.identity_of = host.identity_of
        node.limits_of = host.limits_of
        if recorder is not None:
            recorder.unread = node.unacknowledged_bytes
            recorder.party_of = lambda client: host.identity_of(node.connection_of(client)) or client
        self.books.begin(host, node, machine, str(told), self.incarnation)
        if self._door.is_guarded:
            self._set_guard(machine, node, host, recorder)
        self._since_s = time.monotonic()
        host.bar(self._barred)
        self._held = ()
        host.start()
        self._hold()
        await host.serve(place)
        self._began(self)
        await host.settle()  # what is on the disk may name the network
        if host.network and parent is None and not contacts and (founds or not has_memory):
            self._tell_founded(host.network)

    def _make_store(self, most: int) -> SpillSegments:
        """For what this life spills; nothing of the last one is left."""
        self._spilled.close()
        if self.rooms.get("spill") is None:
            path = self._folder.path if self._folder is not None else Path(tempfile.gettempdir())
            store = self.rooms.add(StoreRoom("spill", path, self._spec.events.min_free_bytes, 0, is_optional=True))
            self._spilled.is_full = lambda: store.is_full
        return SpillSegments(self._spilled, most)

    # -- room on the disk ----------------------------------------------------------------------------------------------

    def _watch_rooms(self) -> None:
        folder, spec = self._folder, self._spec
        if folder is not None:
            options = spec.journal
            path = folder.path / JOURNAL
            self.rooms.add(StoreRoom("journal", path, options.min_free_bytes, options.warn_free_bytes, False))
        if folder is not None and spec.keep:
            options = spec.events
            is_optional = options.when_disk_full is WhenDiskFull.GAP
            path = folder.path / EVENTS
            self.rooms.add(StoreRoom("events", path, options.min_free_bytes, options.warn_free_bytes, is_optional))
        self._looking = asyncio.get_running_loop().create_task(self._look_at_rooms())

    async def _look_at_rooms(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.rooms.tell()
            self._hold()
            if self._unremembered is not None:
                self._remember(self._unremembered)
            await asyncio.sleep(ROOM_SECONDS)
            await loop.run_in_executor(None, self.rooms.look)

    def _room_changed(self, store: StoreRoom, before: str) -> None:
        if store.name == "spill":  # a stack that has something to spill, and cannot, says so itself
            return
        self._heard(Note(ROOM_KINDS[store.state], {"detail": _room_line(store)}))
        asyncio.get_running_loop().call_soon(self._hold)  # not in the middle of what is being done

    def _hold(self) -> None:
        """Take no more than there is room for: first nothing from clients, then nothing from other brokers either.
        Signs of life and messages without a payload pass in any case."""
        host = self._host
        if host is None or host.is_over:
            return
        full = [store for store in self.rooms if store.is_full and not store.is_optional]
        roles = () if not full else ALL_ROLES if any(store.is_scarce for store in full) else ALL_ROLES[:1]
        if roles != self._held:
            reason = f"{self.name} has no room on its disk: {full[0].line()}" if full else ""
            told = HoldTold(reason) if bool(roles) != bool(self._held) else None
            self._held = roles
            host.handle(HoldRoles(roles, HoldTold(reason) if roles else told))

    def _events_missed(self, gap: LostEvents) -> None:
        detail = (
            f"{gap.bundles} bundles of events were not kept between {_clock(gap.first_us)} and {_clock(gap.last_us)},"
            f" before position {gap.position}: {gap.reason}"
        )
        self._heard(Note("events_gap", {"detail": detail}))

    def _recorder(self, machine: Machine) -> EventRecorder | None:
        if not self._spec.keep or self._folder is None:
            return None
        folder = self._folder
        return EventRecorder(
            machine, self.name, self.incarnation, folder.events_id, self._spec.keep, folder.last_event()
        )

    def _set_guard(self, machine: Machine, node: Links, host: Host, recorder: EventRecorder | None) -> None:
        if not isinstance(machine, Shell):
            if self._door.has_rules:
                raise UsageError(f"the stack {self._stack.name!r} cannot be given rules: its broker is no Shell")
            return

        def permit(client: str) -> Permit:
            return host.permit_of(node.connection_of(client))

        door = self._door
        machine.guard = guard = Guard(permit, host.reception.refused, door.keeps, door.is_for_anybody)
        if recorder is not None:
            recorder.may_read = lambda client, topic_filter: may_hear(permit(client).rights, client, topic_filter)
            machine.guard = lambda session, message: (
                (message, ()) if session.name == recorder.name else guard(session, message)
            )

    def _heard(self, note: Note) -> None:
        self.books.note(note)
        self._told(note)

    def _tell_two_networks(self, line: str) -> None:
        self._heard(Note("two_networks", {"detail": line}))

    def _tell_founded(self, network: str) -> None:
        forgets = "" if self._folder is not None else "; without --data or --join it founds another one at every start"
        self._heard(Note("founded", {"detail": f"{self.name} begins the network {network}{forgets}"}))

    def _room(self) -> int:
        """How many connections others may open, as far as the system allows it; says so when it does not."""
        links = self._links
        room, warning = room_for(min(CONNECTIONS_MAX, links.sessions_max + links.greetings_max))
        if warning:
            self._heard(Note("note", {"detail": warning}))
        return room

    def _upward(self, effect: Upward) -> None:
        if isinstance(effect, Note) and effect.kind != "name_refused":  # that is the end, and told as such
            if effect.kind in ("few_copies", "enough_copies"):
                self._few_copies = effect.columns["detail"] if effect.kind == "few_copies" else ""
            elif effect.kind == "reunion_waits":
                effect = self._with_advice(effect)
            elif effect.kind in ("joined", "reunited"):
                self.waits_for = ""
            self._heard(effect)

    def _with_advice(self, note: Note) -> Note:
        """What it waits for, and what an operator can do."""
        command = f": {self._spec.force}" if self._spec.force else ""
        advice = f"if they never return, go on without them by starting one broker with --force-found{command}"
        self.waits_for = f"{note.columns['detail']}; {advice}"
        return Note(note.kind, {"detail": self.waits_for})

    async def _seek(self) -> None:
        """While it looks for its network: ask who listens where it was told, and let it speak to them."""
        told = ""
        while True:
            for address in self._spec.seek if not self.host.network else ():
                try:
                    here = await who_is(address, SEEK_SECONDS, self.name, keyring=self._door.keyring)
                except UnreachableError as error:
                    if error.hopeless and str(error) != told:
                        told = str(error)
                        self._heard(Note("note", {"detail": told}))
                    continue
                if here.role == "broker" and here.name != self.name and here.stack in ("", self._stack.name):
                    self._book.locate(here.name, str(address))
                    self.host.handle(Request(LookForRequest((here.name,))))
            await asyncio.sleep(SEEK_SECONDS)

    def _ended(self, how: HostEnd) -> None:
        if isinstance(how, Retire) and how.again and not self._leaving:
            self._heard(Note("note", {"detail": f"life {self.incarnation} is over: {how.reason}"}))
            self.incarnation = max(self.incarnation, believed(how.above))
            self._rebirth = asyncio.get_running_loop().create_task(self._live_again(how.toward))
            return
        if not isinstance(how, Retire):
            self._trouble = how
        elif how.refused:
            self._trouble = UsageError(how.reason)
        self._over.set()

    def _remember(self, effect: Remember) -> None:
        """Who is in the tree; with a folder also for the processes after this one. It is on disk when this returns."""
        self._company = effect.names if effect.placed else ()
        if effect.placed:
            self.host.network = self._lookout.network = effect.network
        if self._folder is not None:
            self._memory = effect.memory
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
                self._ended(DiskError(f"{self._folder.path}: {error.strerror or error}"))

    def _asked(self, who: Who) -> None:
        """Brokers ask whom they have known, even if those have forgotten them."""
        self._lookout.met(who.name, who.network)

    def _missing(self) -> list[tuple[str, Address]]:
        """Who is known, and not in the tree as far as this broker sees it."""
        aside = {self.name, *self._company, *self._barred}
        known = [(name, self._book.find(name)) for name in self._book if name not in aside]
        return [(name, address) for name, address in known if address is not None]

    async def _live_again(self, toward: str | None) -> None:
        """The next life, at once; a little later when the last one was very short. `toward`: whom it asks first."""
        await asyncio.sleep(self._pause())
        self.incarnation += 1
        parent = toward or self._spec.parent
        known = tuple(name for name in self._book if name not in (self.name, parent))
        try:
            place = await self._take_place_again()
            try:
                await self._live(place, parent, known)
            except BaseException:
                place.close()
                raise
        except ResproutError as error:
            self._trouble = error
            self._over.set()

    def _pause(self) -> float:
        if time.monotonic() - self._since_s >= LIFE_SECONDS_MIN:
            self._pause_s = 0.0
        else:
            self._pause_s = min(PAUSE_SECONDS_MAX, max(PAUSE_SECONDS_MIN, 2 * self._pause_s))
        return self._pause_s

    async def _take_place_again(self) -> ListeningPlace:
        patience_s = time.monotonic() + LISTEN_SECONDS_MAX
        while True:
            try:
                return await take_place(self.address)
            except ListenError:
                if time.monotonic() > patience_s:
                    raise
            await asyncio.sleep(LISTEN_RETRY_SECONDS)


async def serve(
    spec: BrokerToRun,
    stack: Stack[Any],
    options: Any,
    links: LinkOptions,
    heard: Callable[[Note], None],
    began: Callable[[RunningBroker], None] = lambda broker: None,
    door: Door | None = None,
) -> tuple[RunningBroker, Address]:
    """Start a broker; returns it, and the address it really listens on. `began` is told of each life that can be
    connected to. `door`: who may come; everybody, without one. ListenError when it cannot listen; UsageError when its
    data folder is missing or not its own."""
    folder = None
    if spec.data is not None:
        data = spec.data
        folder, warnings = await with_room(lambda: _open_data(data, spec), heard)
        spec = msgspec.structs.replace(spec, incarnation=max(spec.incarnation, folder.incarnation + 1))
        for warning in filter(None, warnings):
            heard(Note("note", {"detail": warning}))
    elif spec.keep:
        raise UsageError(f"{spec.name} is to keep events: give --data DIR, a folder for them")
    elif stack.keeps_records(options):
        raise UsageError(f"{spec.name} is to be durable: give --data DIR, a folder for what it must keep")
    broker = RunningBroker(spec, stack, options, links, heard, began, folder, door or Door())
    try:
        await broker.start()
    except BaseException:
        await broker.close()
        raise
    return broker, broker.address


def _open_data(path: Path, spec: BrokerToRun) -> tuple[DataFolder, list[str]]:
    """The folder of a broker, and what is to be said of it."""
    folder = open_folder(path, spec.name, spec.journal)
    try:
        return folder, [folder.warning, folder.open_events(spec.events).warning if spec.keep else ""]
    except BaseException:
        folder.close()
        raise


async def with_room(write: Callable[[], T], heard: Callable[[Note], None]) -> T:
    """Do what needs room on the disk; wait for room, and say so, while there is none. DiskError for anything else."""
    delay_s = ROOM_RETRY_SECONDS_MIN
    said = ""
    while True:
        try:
            done = write()
        except DiskError as error:
            if not error.is_full:
                raise
            line = f"{error}: it waits until there is room"
            if line != said:
                said = line
                heard(Note("disk_full", {"detail": line}))
        else:
            if said:
                heard(Note("disk_ok", {"detail": "there is room again: it goes on"}))
            return done
        await asyncio.sleep(delay_s)
        delay_s = min(ROOM_RETRY_SECONDS_MAX, 2 * delay_s)


_MEANS: Final = {
    "journal": "publishers are held until there is room",
    "events": "events are not kept until there is room",
}


def _room_line(store: StoreRoom) -> str:
    """For people: how much room a store has, and what that means."""
    state = store.state
    means = ""
    if state == FULL:
        means = f": {_MEANS['journal'] if not store.is_optional else _MEANS[store.name]}"
    return f"disk {state}, {store.name}: {store.line()}{means}"


def left_out_mark(life: int, gap: LostEvents) -> bytes:
    """Make the mark that readers of the journal come to."""
    count = f"{gap.bundles} bundle{'s' if gap.bundles != 1 else ''}"
    left_out = ""
    if not gap.is_over:
        left_out = f"has left out {count} since {_clock(gap.first_us)}: {gap.reason}"
    elif gap.bundles:
        left_out = f"left out {count} between {_clock(gap.first_us)} and {_clock(gap.last_us)}: {gap.reason}"
    return left_out_record(life, gap.earlier_us, left_out, gap.marks)


def _clock(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
