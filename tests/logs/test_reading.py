"""Reads of one replica by offset and by time, of a store that retention shortens, and reads that wait for more."""

from random import Random

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Effect, ProtocolMessage
from resprout.core.guarantee import Guarantee
from resprout.journal.interface import FetchStore, Kept, StoreFetched, StoreOpened
from resprout.logs.declaration import LogDeclaration
from resprout.logs.entries import LogEntryStore
from resprout.logs.reading import BY_TIME, LATEST, WAIT_TICKS, FoundPage, LogReader, Wanted
from resprout.logs.records import LogCommand, LogEntry, bundle_command, read_entry, to_bytes
from resprout.logs.state import LogState

LOG = LogDeclaration("bank", "bank/#", ("b0",))


class Disk:
    """A replica's entries, in a store whose beginning may be dropped."""

    def __init__(self, seed: int, entries: int) -> None:
        self.rng = Random(seed)
        self.state = LogState()
        self.records: list[bytes] = []
        self.first = 0
        self.tokens = 0
        self.asked: list[FetchStore] = []
        self.probes = 0
        self.state.apply(to_bytes(LogCommand("f", 1, 5, -1, begins=True)))
        self.store = LogEntryStore(LOG, self)
        self.reader = LogReader(LOG, self.store, self, lambda: (self.state.next, self.state.end))
        self.time_us = 1_000
        self.grow(entries)
        self.store.opened(StoreOpened(LOG.entries, (), 0, len(self.records)))

    def grow(self, entries: int) -> None:
        for number in range(self.state.next, self.state.next + entries):
            self.time_us += self.rng.choice((0, 0, 7))
            if self.rng.random() < 0.1:
                command = to_bytes(LogCommand("f", number + 2, self.time_us, -1, gap="lost"))
            else:
                count = self.rng.choice((1, 1, 4))
                content = pack_payloads([b"x"] * count)
                bundle = Bundle("p", 1, 1 + 9 * number, count, 0, "bank/a", (), Guarantee.FIFO, b"", content)
                command = bundle_command("f", number + 2, self.time_us, -1, bundle)
            for record in self.state.apply(command):
                self.store.put(number, record)
                if len(self.records) == number:
                    self.records.append(record)

    def entries(self) -> list[LogEntry]:
        found = [read_entry(record) for record in self.records[self.first :]]
        return [entry for entry in found if entry is not None]

    def write(self, effect: Effect) -> None:
        """`grow` keeps the records."""

    def send(self, broker: str, message: ProtocolMessage) -> None:
        raise AssertionError(message)

    def do(self, effect: Effect) -> None:
        assert isinstance(effect, FetchStore)
        self.asked.append(effect)

    def token(self) -> int:
        self.tokens += 1
        return self.tokens

    def answer(self) -> None:
        while self.asked:
            asked = self.asked.pop(self.rng.randrange(len(self.asked)))
            self.probes += 1
            begin = max(asked.position, self.first)
            records = [Kept(at, 0, self.records[at]) for at in range(begin, len(self.records))]
            records = records[: 1 if asked.size == 1 else 3]
            assert self.reader.fetched(StoreFetched(asked.token, records, self.first, len(self.records)))

    def read(self, wanted: Wanted) -> FoundPage:
        found: list[FoundPage] = []
        self.reader.read(wanted, found.append)
        self.answer()
        (page,) = found
        return page


@pytest.mark.parametrize("seed", range(5))
def test_every_offset_is_found_in_the_entry_that_holds_it(seed: int) -> None:
    disk = Disk(seed, 300)
    disk.first = disk.rng.choice((0, 0, 120))
    entries = disk.entries()
    for offset in disk.rng.sample(range(disk.state.end), 200):
        page = disk.read(Wanted(offset))
        assert (page.first, page.end, page.begin) == (entries[0].offset, disk.state.end, offset)
        if offset < page.first:
            assert not page.records
            continue
        entry = read_entry(page.records[0])
        assert entry is not None and entry.offset <= offset < entry.following


@pytest.mark.parametrize("seed", range(5))
def test_a_time_is_the_first_entry_that_is_not_older(seed: int) -> None:
    disk = Disk(seed, 300)
    disk.first = disk.rng.choice((0, 50))
    entries = disk.entries()
    for time_us in range(990, disk.time_us + 10, 3):
        page = disk.read(Wanted(BY_TIME, time_us))
        later = [entry.offset for entry in entries if entry.time_us >= time_us]
        assert page.begin == (later[0] if later else disk.state.end)
        assert bool(page.records) is bool(later)


def test_earliest_and_latest_follow_retention() -> None:
    disk = Disk(1, 60)
    assert disk.read(Wanted(BY_TIME)).begin == 0
    disk.first = 40
    assert disk.read(Wanted(BY_TIME)).begin == disk.entries()[0].offset
    page = disk.read(Wanted(LATEST))
    assert (page.begin, page.records, page.end) == (disk.state.end, [], disk.state.end)


def test_a_page_that_follows_another_one_needs_no_search() -> None:
    disk = Disk(2, 300)
    page = disk.read(Wanted(BY_TIME))
    seen: list[LogEntry] = []
    disk.probes = 0
    pages = 0
    while page.records:
        seen += [entry for record in page.records if (entry := read_entry(record)) is not None]
        page = disk.read(Wanted(seen[-1].following))
        pages += 1
    assert seen == disk.entries() and disk.probes == pages


def test_what_is_not_decided_yet_is_not_read() -> None:
    disk = Disk(3, 20)
    end = disk.state.end
    number = disk.state.next
    disk.grow(5)
    reader = LogReader(LOG, disk.store, disk, lambda: (number, end))
    disk.reader = reader
    page = disk.read(Wanted(end - 1))
    assert len(page.records) == 1 and page.end == end
    assert not disk.read(Wanted(end)).records


def test_a_read_of_the_end_waits_for_more_but_not_for_ever() -> None:
    disk = Disk(4, 20)
    found: list[FoundPage] = []
    disk.reader.read(Wanted(disk.state.end, waits=True), found.append)
    disk.reader.look()
    disk.answer()
    assert not found
    disk.grow(1)
    disk.reader.look()
    disk.answer()
    assert len(found) == 1 and len(found[0].records) == 1
    disk.reader.read(Wanted(disk.state.end, waits=True), found.append)
    for _ in range(WAIT_TICKS + 1):
        assert len(found) == 1
        disk.reader.tick()
        disk.answer()
    assert len(found) == 2 and not found[1].records and not found[1].reason


@pytest.mark.parametrize("offset", [BY_TIME, LATEST])
def test_a_read_that_finds_nothing_ends_where_the_log_ended_when_it_began(offset: int) -> None:
    """Entries that are appended while the disk is read are not passed over."""
    disk = Disk(5, 0)
    found: list[FoundPage] = []
    disk.reader.read(Wanted(offset), found.append)
    (asked,) = disk.asked
    disk.asked.clear()
    disk.grow(5)
    disk.reader.fetched(StoreFetched(asked.token, (), 0, 0))
    assert (found[0].begin, found[0].first, found[0].records) == (0, 0, []) and found[0].end == disk.state.end > 0
