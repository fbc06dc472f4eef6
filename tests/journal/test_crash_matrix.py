"""A crash at every point at which a journal touches its files, a full disk at every byte, every bit flipped: nothing
that was confirmed is lost, nothing is invented, and the journal goes on.

Each trial is judged by a reader that shares no code with the journal (`judge`), and by what the journal had confirmed.
"""

import random
from collections.abc import Iterator

import pytest

from resprout.journal.interface import DamagedError, DiskError, Flush, JournalOptions
from resprout.journal.journal import Journal
from resprout.journal.mending import mend
from resprout.sim.disk import VirtualFiles
from tests.journal.judge import proved
from tests.journal.stage import KEEPING, contents, opened, records_of

OPTIONS = JournalOptions(segment_bytes=4_096, retain_bytes=9_000)


class KilledError(Exception):
    """The process ends here."""


class Trial:
    """A writer, and what it was told is kept."""

    def __init__(self, seed: int, options: JournalOptions = OPTIONS) -> None:
        self.files = VirtualFiles(self._before)
        self.options = options
        self.steps = 0
        """How often the files were touched."""
        self.kill_at = 1 << 60
        self.confirmed: dict[int, bytes] = {}
        self.written: dict[int, set[bytes]] = {}
        """What may stand at a position: all that was ever tried there."""
        self.floor = 0
        self.trying: tuple[int, dict[int, bytes]] = (0, {})
        """The write that a crash may have interrupted."""
        self._rng = random.Random(seed)

    def _before(self, what: str, name: str) -> None:
        self.steps += 1
        if self.steps == self.kill_at:
            raise KilledError(what)

    def work(self, batches: int) -> None:
        journal = opened(self.files, self.options)
        for number in range(batches):
            self.write(journal, number)

    def write(self, journal: Journal, number: int) -> None:
        rng = self._rng
        records = [rng.randbytes(rng.choice((0, 1, 30, 900))) for _ in range(rng.randint(0, 4))]
        for position, record in enumerate(records, journal.next):
            self.written.setdefault(position, set()).add(record)
        floor = max(self.floor, journal.next - rng.randint(0, 20))
        self.trying = floor, dict(enumerate(records, journal.next))
        first = journal.append(records, number, floor)
        self.floor = floor
        self.confirmed.update(enumerate(records, first))

    def judge(self) -> None:
        """After a crash, before and after the journal is opened again."""
        there = proved(contents(self.files))
        floor, records = self.trying
        if records.items() <= there.items():
            self.floor = floor  # it came so far; what it said is not needed any more may be gone
        needed = {position: record for position, record in self.confirmed.items() if position >= self.floor}
        assert needed.items() <= there.items(), "what was confirmed is on the disk"
        journal = opened(self.files, self.options)
        found = records_of(journal)
        assert needed.items() <= found.items(), "and comes back"
        for position, record in found.items():
            assert record in self.written[position], "nothing is invented"
        assert list(found) == list(range(journal.first, journal.next)), "without a gap"
        assert journal.first <= max(self.floor, journal.floor)
        assert not opened(self.files, self.options).warning, "what is torn is cut off once"
        self.confirmed = found
        self.write(opened(self.files, self.options), 1_000)
        assert self.confirmed.items() <= proved(contents(self.files)).items() | found.items()


def steps_of(batches: int) -> int:
    trial = Trial(1)
    trial.work(batches)
    return trial.steps


def test_a_crash_at_every_point_loses_nothing_that_was_confirmed() -> None:
    steps = steps_of(25)
    assert steps > 60
    for kill_at in range(1, steps + 1):
        for seed in range(8):
            trial = Trial(1)
            trial.kill_at = kill_at
            with pytest.raises(KilledError):
                trial.work(25)
            trial.files.crash(random.Random(1_000 * kill_at + seed))
            trial.judge()


def test_a_crash_at_every_point_of_a_recovery_loses_nothing_either() -> None:
    for first in range(3, steps_of(25), 5):
        second = 0
        while True:
            second += 1
            trial = Trial(1)
            trial.kill_at = first
            with pytest.raises(KilledError):
                trial.work(25)
            trial.files.crash(random.Random(first))
            trial.kill_at = trial.steps + second
            try:
                opened(trial.files, OPTIONS)
            except KilledError:
                trial.files.crash(random.Random(second))
                trial.judge()
            else:
                break


def test_the_end_of_the_process_alone_takes_nothing_back_whatever_the_policy() -> None:
    for flush in Flush:
        trial = Trial(2, JournalOptions(flush, segment_bytes=4_096, retain_bytes=9_000))
        trial.work(40)
        trial.judge()


def test_with_an_interval_a_loss_of_power_takes_back_no_more_than_was_not_synced() -> None:
    for seed in range(30):
        trial = Trial(3, JournalOptions(Flush.INTERVAL, segment_bytes=4_096, retain_bytes=9_000))
        journal = opened(trial.files, trial.options)
        kept: dict[int, bytes] = {}
        for number in range(30):
            trial.write(journal, number)
            if number % 7 == 6:
                journal.sync()
                kept = dict(trial.confirmed)
        trial.confirmed = kept
        trial.files.crash(random.Random(seed))
        floor = opened(trial.files, trial.options).floor
        trial.floor = max(trial.floor, floor)
        trial.judge()


def test_a_disk_that_is_full_at_any_byte_loses_nothing_that_was_confirmed() -> None:
    trial = Trial(4)
    trial.work(20)
    size = sum(map(len, contents(trial.files).values())) + 6_000
    for room in range(0, size, 37):
        trial = Trial(4)
        trial.files.room = room
        with pytest.raises(DiskError, match="No space left on device"):
            trial.work(40)
        there = proved(contents(trial.files))
        for position, record in trial.confirmed.items():
            assert position < trial.floor or there[position] == record
        trial.files.room = None
        trial.judge()


def bits(files: VirtualFiles, rng: random.Random) -> Iterator[tuple[str, int, int]]:
    for name, content in contents(files).items():
        if name.endswith(".journal"):
            for at in range(len(content)):
                yield name, at, 1 << rng.randrange(8)


def test_any_flipped_bit_is_refused_with_its_place_or_costs_at_most_the_last_write() -> None:
    trial = Trial(5)
    journal = opened(trial.files, KEEPING)
    for number in range(14):
        last = journal.next
        trial.write(journal, number)
    whole = records_of(journal)
    assert len(journal.reader().indexes) > 1
    for name, at, mask in bits(trial.files, random.Random(5)):
        trial.files.spoil(name, at, mask)
        try:
            found = records_of(opened(VirtualFilesCopy(trial.files), KEEPING))
        except DamagedError as error:
            assert f"disk/{name}" in str(error) and "byte" in str(error) and "\n" not in str(error)
        else:
            assert found == {position: record for position, record in whole.items() if position < last}
        trial.files.spoil(name, at, mask)
    assert records_of(opened(trial.files, KEEPING)) == whole


def test_mending_keeps_everything_that_is_intact_wherever_a_bit_was_flipped() -> None:
    trial = Trial(6)
    journal = opened(trial.files, KEEPING)
    for number in range(10):
        trial.write(journal, number)
    whole = records_of(journal)
    rng = random.Random(6)
    for name, at, mask in list(bits(trial.files, rng))[::9]:
        spoiled = VirtualFilesCopy(trial.files)
        spoiled.spoil(name, at, mask)
        there = proved(contents(spoiled))
        done = mend(spoiled, lambda: rng.getrandbits(32))
        again = opened(spoiled, KEEPING)
        found = records_of(again)
        assert found.items() <= whole.items()
        assert len(whole) - len(found) <= 4, "a flipped bit costs a record, or the last write"
        assert done.records >= len(found) and (not done.asides or found == there)
        assert all(f"{name}.damaged-" in aside for aside in done.asides)
        assert not mend(spoiled, lambda: rng.getrandbits(32)).asides, "once"
        again.append([b"goes on"], 5_000)


class VirtualFilesCopy(VirtualFiles):
    """The same content, synced."""

    def __init__(self, files: VirtualFiles) -> None:
        super().__init__()
        for name, content in contents(files).items():
            self.create(name)
            self.append(name, content)
            self.sync(name)
        self.sync_names()
