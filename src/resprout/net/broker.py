"""A broker as a program: a stack's machine behind a listening socket, one life after the other.

A machine that retires ends its life. The next one begins at the same address, under the next incarnation, with a fresh
machine that may ask everybody whom the last one knew for a place; what was persisted is handed to it. A machine that
leaves for good ends the broker.
"""

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from resprout.core.contract import Machine, Note, Request, Retire
from resprout.core.errors import ResproutError, UsageError
from resprout.edge.broker.guard import Guard, Permit
from resprout.edge.broker.recorder import EventRecorder
from resprout.edge.requests import DRAIN_US, LeaveRequest
from resprout.edge.rights import may_hear
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.address import Address, AddressBook, ListenError, ListeningPlace, address_to_tell, take_place
from resprout.net.bookkeeper import Bookkeeper
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.connection_limits import room_for
from resprout.net.data_folder import DataFolder, open_folder
from resprout.net.disk_space import DiskSpace, gap_note, left_out_mark, with_room
from resprout.net.door import Door
from resprout.net.event_loop import epoch_us
from resprout.net.host import CONNECTIONS_MAX, Host, HostEnd, Upward
from resprout.net.membership import Membership
from resprout.net.sessions import (
    EncodedBodies,
    Here,
    believed,
    incarnation_max,
    make_codec,
    random_epoch,
    with_signs_of_life,
)
from resprout.net.survey import answer
from resprout.stacks.shell import Shell
from resprout.stacks.stack import BrokerSeat, Stack

LISTEN_SECONDS_MAX: Final = 10.0
"""For the next life to have the place of the last one again."""
LISTEN_RETRY_SECONDS: Final = 0.05

LIFE_SECONDS_MIN: Final = 5.0
PAUSE_SECONDS_MIN: Final = 0.1
PAUSE_SECONDS_MAX: Final = 5.0
"""Before the next life when the last one was shorter than that: doubled each time from the first to the last."""


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
        self._max_payload = stack.max_payload(options)
        self._links = with_signs_of_life(links)
        self._told = heard
        self._began = began
        self._folder = folder
        self._door = door
        self._codec = make_codec(stack.messages)
        self._book = AddressBook(spec.peers)
        self.books = Bookkeeper(spec.name, stack, self._book, spec.metered)
        self.books.folder = folder
        self._membership = Membership(
            spec, stack.name, self._max_payload, self._book, folder, door, lambda: self.host, self._heard, self._ended
        )
        self._disk = DiskSpace(spec, folder, lambda: self._host, self._membership.retry, self._heard)
        self.rooms = self.books.rooms = self._disk.rooms
        self._host: Host | None = None
        self._few_copies = ""
        """What it has said about `safe` that rests on too few brokers."""
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
    def door(self) -> Door:
        return self._door

    @property
    def stack(self) -> str:
        return self._stack.name

    @property
    def waits_for(self) -> str:
        """What keeps it from its network, and what to do about it; empty when it has a place."""
        return self._membership.waits_for

    @property
    def notices(self) -> tuple[str, ...]:
        """What people should know about it, a line each."""
        few = filter(None, (self.waits_for, self._few_copies))
        return (*few, *self._disk.notices, *self._membership.notices)

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
        self._membership.barred = tuple(peers)
        self.host.bar(peers)

    def found(self, places: Mapping[str, Address]) -> None:
        """More brokers of the run listen now, at these addresses: for those that it calls by name."""
        for name, address in places.items():
            if name != self.name:
                self._book.locate(name, str(address))

    async def close(self, farewell: str | None = None) -> None:
        """Ends the life that runs, see `Host.close`, and begins no other."""
        if self._rebirth is not None:
            self._rebirth.cancel()
            await asyncio.wait((self._rebirth,))
        await self._membership.close()
        await self._disk.close()
        if self._host is not None:
            await self._host.close(farewell)
        self.books.close()
        self._disk.close_spilled()
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
            self._membership.watch()
            self._disk.watch()
            await self._live(place, self._spec.parent, self._spec.contacts, self._spec.founds)
            self._membership.seek()
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
        has_memory = bool(self._membership.memory)
        seat = BrokerSeat(
            name, self.incarnation, parent, contacts, str(told), spec.site, self._disk.make_store,
            self._folder is not None, self._membership.memory, founds, epoch_us(), spec.logs, spec.roster,
            spec.is_traced,
        )  # fmt: skip
        seed = secrets.randbits(64)
        self._few_copies = self._membership.waits_for = ""
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
            bodies=EncodedBodies(self._codec, self._max_payload),
            incarnation_max=incarnation_max,
            deliveries_last=True,
        )
        host = self._host = Host(
            node,
            self._codec,
            Here(name, "broker", self.incarnation, stack=self._stack.name, max_payload=self._max_payload),
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
            missed=lambda gap: self._heard(gap_note(gap)),
            gap_record=partial(left_out_mark, self.incarnation),
            stores=self._folder.stores if self._folder is not None else None,
            ended=self._ended,
            remember=self._membership.remember,
            asked=self._membership.asked,
            notices=lambda: self.notices,
            door=self._door,
            tells=lambda asked: answer(self.books, asked),
        )
        node.identity_of = host.identity_of
        node.limits_of = host.limits_of
        if isinstance(machine, Shell) and machine.log_access is not None:
            machine.log_access.unread = node.unacknowledged_bytes
        if recorder is not None:
            recorder.unread = node.unacknowledged_bytes
            recorder.party_of = lambda client: host.identity_of(node.connection_of(client)) or client
        self.books.begin(host, node, machine, str(told), self.incarnation)
        if self._door.is_guarded:
            self._set_guard(machine, node, host, recorder)
        self._since_s = time.monotonic()
        host.bar(self._membership.barred)
        self._disk.begin_life()
        host.start()
        self._disk.hold()
        await host.serve(place)
        self._began(self)
        await host.settle()  # what is on the disk may name the network
        if host.network and parent is None and not contacts and (founds or not has_memory):
            self._membership.tell_founded(host.network)

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
        guard = Guard(permit, host.reception.refused, door.keeps, door.is_for_anybody)
        machine.guard = lambda session, message: (message, ()) if session.is_internal else guard(session, message)
        if machine.value_owners is not None and door.has_rules:
            machine.value_owners.owner_of = door.owner_of
            machine.value_owners.version = lambda: door.rules_version
        for reader in (recorder, machine.log_access):
            if reader is not None:
                reader.may_read = lambda client, topic_filter: may_hear(permit(client).rights, client, topic_filter)

    def _heard(self, note: Note) -> None:
        self.books.note(note)
        self._told(note)

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
                effect = self._membership.with_advice(effect)
            elif effect.kind in ("joined", "reunited"):
                self._membership.waits_for = ""
            self._heard(effect)

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
    elif any(spec.name in log.replicas for log in spec.logs):
        raise UsageError(f"{spec.name} is to keep a replica of a log: give --data DIR, a folder for it")
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
