"""Journals on virtual files, for tests."""

from collections.abc import Sequence
from itertools import count

from resprout.journal.interface import JournalOptions, Kept
from resprout.journal.journal import Journal, open_journal
from resprout.sim.disk import VirtualFiles

SMALL = JournalOptions(segment_bytes=4_096)
KEEPING = JournalOptions(segment_bytes=4_096, retain_bytes=1 << 30)


def opened(files: VirtualFiles, options: JournalOptions = SMALL, time_us: int = 0) -> Journal:
    seeds = count(1_000_003)
    return open_journal(files, options, lambda: next(seeds) * 2_654_435_761 % (1 << 32), time_us)


def contents(files: VirtualFiles) -> dict[str, bytes]:
    return {name: files.read(name, 0, files.size(name)) for name in files.names()}


def everything(journal: Journal) -> list[Kept]:
    return list(journal.reader().all_from(journal.first))


def records_of(journal: Journal) -> dict[int, bytes]:
    return {kept.position: kept.record for kept in everything(journal)}


def fill(journal: Journal, batches: Sequence[Sequence[bytes]], time_us: int = 0) -> None:
    for number, batch in enumerate(batches):
        journal.append(batch, time_us + number)
