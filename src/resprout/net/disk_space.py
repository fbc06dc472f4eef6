"""Watches the disks that a broker writes to, and holds publishers while one of them is full.

`DiskSpace` adds the broker's stores to its `Rooms`, looks at them once per second and tells the host whom to hold.
`with_room` is for writes that a broker cannot start without. `left_out_mark` and `gap_note` say which events were not
kept for lack of space.
"""

import asyncio
import tempfile
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from resprout.core.contract import HoldRoles, Note
from resprout.edge.broker.event_record import left_out_record
from resprout.edge.messages import HoldTold
from resprout.journal.interface import DiskError, WhenDiskFull
from resprout.journal.spill import SpillSegments
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.data_folder import EVENTS, JOURNAL, DataFolder
from resprout.net.disk import FULL, LOW, OK, Rooms, StoreRoom, UnnamedFiles
from resprout.net.durable import LostEvents
from resprout.net.host import Host

ROOM_SECONDS: Final = 1.0
"""Between two looks at how much room there is; every batch that is written looks, too."""
ROOM_RETRY_SECONDS_MIN: Final = 0.1
ROOM_RETRY_SECONDS_MAX: Final = 5.0
"""Between attempts to start on a full disk: doubled from the first to the last."""
ROOM_KINDS: Final = {FULL: "disk_full", LOW: "disk_low", OK: "disk_ok"}
"""Kinds of notes, by the state that a store has now."""
ALL_ROLES: Final = ("client", "broker", "newcomer")

_MEANS: Final = {
    "journal": "publishers are held until there is room",
    "events": "events are not kept until there is room",
}

T = TypeVar("T")


class DiskSpace:
    """The stores of one broker, in all its lives. `folder`: where it keeps its journals, if it has one. `host` returns
    the host of the current life, `looked` is called after each look, `heard` is told of each change."""

    def __init__(
        self,
        spec: BrokerToRun,
        folder: DataFolder | None,
        host: Callable[[], Host | None],
        looked: Callable[[], None],
        heard: Callable[[Note], None],
    ) -> None:
        self._spec = spec
        self._path = folder.path if folder is not None else None
        self._host = host
        self._looked = looked
        self._heard = heard
        self.rooms = Rooms(self._changed)
        self._spilled = UnnamedFiles(self._path)
        self._held: Collection[str] = ()
        """Roles that are held in this life, because there is no room for what they send."""
        self._looking: asyncio.Task[None] | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """A line for each store that is low or full."""
        return tuple(_room_line(store) for store in self.rooms if store.state != OK and store.name != "spill")

    def watch(self) -> None:
        """Add the stores, and look at them until `close`."""
        path, spec = self._path, self._spec
        if path is not None:
            options = spec.journal
            self.rooms.add(StoreRoom("journal", path / JOURNAL, options.min_free_bytes, options.warn_free_bytes, False))
        if path is not None and spec.keep:
            options = spec.events
            optional = options.when_disk_full is WhenDiskFull.GAP
            self.rooms.add(
                StoreRoom("events", path / EVENTS, options.min_free_bytes, options.warn_free_bytes, optional)
            )
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))

    def close_spilled(self) -> None:
        self._spilled.close()

    def begin_life(self) -> None:
        """Forget which clients the last life held back: a new life holds back none."""
        self._held = ()

    def make_store(self, most: int) -> SpillSegments:
        """For what this life spills; nothing of the last one is left."""
        self._spilled.close()
        if self.rooms.get("spill") is None:
            path = self._path if self._path is not None else Path(tempfile.gettempdir())
            store = self.rooms.add(StoreRoom("spill", path, self._spec.events.min_free_bytes, 0, is_optional=True))
            self._spilled.is_full = lambda: store.is_full
        return SpillSegments(self._spilled, most)

    def hold(self) -> None:
        """Take no more than there is room for: first nothing from clients, then nothing from other brokers either.
        Signs of life and messages without a payload pass in any case."""
        host = self._host()
        if host is None or host.is_over:
            return
        full = [store for store in self.rooms if store.is_full and not store.is_optional]
        roles = () if not full else ALL_ROLES if any(store.is_scarce for store in full) else ALL_ROLES[:1]
        if roles != self._held:
            reason = f"{self._spec.name} has no room on its disk: {full[0].line()}" if full else ""
            told = HoldTold(reason) if bool(roles) != bool(self._held) else None
            self._held = roles
            host.handle(HoldRoles(roles, HoldTold(reason) if roles else told))

    async def _look(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.rooms.tell()
            self.hold()
            self._looked()
            await asyncio.sleep(ROOM_SECONDS)
            await loop.run_in_executor(None, self.rooms.look)

    def _changed(self, store: StoreRoom, before: str) -> None:
        if store.name == "spill":  # a stack that has something to spill, and cannot, says so itself
            return
        self._heard(Note(ROOM_KINDS[store.state], {"detail": _room_line(store)}))
        asyncio.get_running_loop().call_soon(self.hold)  # not in the middle of what is being done


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


def gap_note(gap: LostEvents) -> Note:
    """Return the note that tells the operator which events were not kept."""
    detail = (
        f"{gap.bundles} bundles of events were not kept between {_clock(gap.first_us)} and {_clock(gap.last_us)},"
        f" before position {gap.position}: {gap.reason}"
    )
    return Note("events_gap", {"detail": detail})


def left_out_mark(life: int, gap: LostEvents) -> bytes:
    """Make the mark that readers of the journal come to."""
    count = f"{gap.bundles} bundle{'s' if gap.bundles != 1 else ''}"
    left_out = ""
    if not gap.is_over:
        left_out = f"has left out {count} since {_clock(gap.first_us)}: {gap.reason}"
    elif gap.bundles:
        left_out = f"left out {count} between {_clock(gap.first_us)} and {_clock(gap.last_us)}: {gap.reason}"
    return left_out_record(life, gap.earlier_us, left_out, gap.marks)


def _room_line(store: StoreRoom) -> str:
    """For people: how much room a store has, and what that means."""
    state = store.state
    means = ""
    if state == FULL:
        means = f": {_MEANS['journal'] if not store.is_optional else _MEANS[store.name]}"
    return f"disk {state}, {store.name}: {store.line()}{means}"


def _clock(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
