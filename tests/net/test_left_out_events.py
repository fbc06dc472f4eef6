"""Events that a broker leaves out while its disk is full are a gap, which no reader passes over silently."""

import errno
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from resprout.core.contract import Effect, LinkDown, Received, Send
from resprout.edge.broker.event_record import CoverageMark, read_event
from resprout.edge.broker.recorder import EventRecorder
from resprout.edge.messages import Attend, Delivery, EventGap, EventRead, EventsEnd, ReadEvents, Subscribe, Subscribed
from resprout.journal.interface import EventsFetched, FetchEvents, JournalOptions, WhenDiskFull
from resprout.journal.journal import Records
from resprout.net.disk_space import left_out_mark
from resprout.net.durable import DurableEffects, LostEvents
from resprout.sim.disk import VirtualFiles
from tests.edge.test_recorder import ME, SERVING, StubStack, bundle
from tests.journal.stage import everything, opened
from tests.net.stage import run, until

OPTIONS = JournalOptions(retain_bytes=1 << 30, when_disk_full=WhenDiskFull.GAP)
FULL = os.strerror(errno.ENOSPC)
T = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


class Life:
    """A recorder and its disk, in the event loop of the test."""

    def __init__(self, files: VirtualFiles, life: int) -> None:
        self.journal = opened(files, OPTIONS)
        self.stack = StubStack()
        self.stack.answers[Attend] = [Send(ME, SERVING)]
        self.stack.answers[Subscribe] = [Send(ME, Subscribed(1, ()))]
        earlier = everything(self.journal)
        self.machine = EventRecorder(self.stack, "b0", life, "b0.x", ("a",), earlier[-1] if earlier else None)
        self.missed: list[LostEvents] = []
        self.sent: list[Any] = []
        self.durable = DurableEffects(
            Records(opened(VirtualFiles())),
            self._execute,
            lambda error: None,
            self.journal,
            missed=self.missed.append,
            gap_record=partial(left_out_mark, life),
        )
        self._events = 0
        self._do(self.machine.start(0))

    def _do(self, effects: Sequence[Effect]) -> None:
        self._execute(self.durable.pass_on(effects))

    def _execute(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, FetchEvents):
                self.durable.fetch(effect, self._fetched)
            elif isinstance(effect, Send):
                self.sent.append(effect.message)

    def _fetched(self, event: EventsFetched) -> None:
        self._do(self.machine.step(event, 0))

    async def keep(self, *numbers: int) -> None:
        """Each event in a batch of its own."""
        for number in numbers:
            self.stack.answers[LinkDown] = [Send(ME, Delivery(bundle(first=number), 1, 0, None))]
            self._do(self.machine.step(LinkDown("x", ""), 0))
            await self.durable.settle()

    async def read(self, position: int = 0, **fields: Any) -> tuple[list[int], EventsEnd]:
        """The numbers of the events of one page, and its end."""
        self.sent.clear()
        asked = {"id": 3, "filter": "#", "where": None, "journal": "", "time_us": 0, "size": 1_000, **fields}
        self._do(self.machine.step(Received("c", ReadEvents(position=position, **asked)), 0))
        await until(lambda: any(isinstance(message, EventsEnd) for message in self.sent))
        *read, end = self.sent
        assert all(isinstance(event, EventRead) for event in read)
        return [event.bundle.first for event in read], end

    async def end(self) -> None:
        await self.durable.settle()
        self.durable.stop()


def marks_of(life: Life) -> list[tuple[int, CoverageMark]]:
    found = [(kept.position, read_event(kept.record)) for kept in everything(life.journal)]
    return [(position, mark) for position, mark in found if isinstance(mark, CoverageMark)]


def matches(text: str, pattern: str) -> bool:
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)
    return True


def test_a_mark_that_says_why_precedes_the_first_event_that_is_kept_again() -> None:
    async def scene() -> None:
        files = VirtualFiles()
        life = Life(files, 3)
        await life.keep(1, 2)
        files.room = 0
        await life.keep(3, 4, 5)
        files.room = None
        await life.keep(6)
        assert [position for position, _ in marks_of(life)] == [0, 3]
        reason = rf"^broker b0 left out 3 bundles between {T} and {T}: disk/.*: {FULL}$"
        assert (await life.read())[0] == [1, 2]
        numbers, end = await life.read(3)
        (gap,) = end.gaps
        assert numbers == [] and (gap.position, gap.following) == (3, 4) and matches(gap.reason, reason)
        last, mark = everything(life.journal)[2:4]
        assert (gap.from_us, gap.until_us) == (last.time_us, mark.time_us)
        numbers, end = await life.read(allow_gaps=True)
        assert numbers == [1, 2, 6] and end.gaps == (gap,)
        (told,) = life.missed
        assert (told.position, told.bundles) == (3, 3)
        await life.end()

    run(scene())


def test_a_reader_comes_to_a_gap_that_is_still_open_and_goes_on_behind_it_later() -> None:
    async def scene() -> None:
        files = VirtualFiles()
        life = Life(files, 3)
        await life.keep(1)
        files.room = 0
        await life.keep(2)
        numbers, end = await life.read()
        assert numbers == [1] and (end.following, end.end) == (2, 3), "this page is not the last one"
        numbers, end = await life.read(2)
        assert numbers == [] and end.following == 2 and "events before position 3 are missing" in end.reason
        (gap,) = end.gaps
        assert gap == EventGap(2, 3, everything(life.journal)[-1].time_us, 0, gap.reason)
        assert matches(gap.reason, rf"^broker b0 has left out 1 bundle since {T}: disk/.*: {FULL}$")
        numbers, end = await life.read(allow_gaps=True)
        assert (numbers, end.following, end.end, end.gaps) == ([1], 3, 3, (gap,))
        await life.keep(3)
        numbers, end = await life.read(3)
        assert (numbers, end.following, end.end, end.reason) == ([], 3, 3, ""), "it was told of this gap"
        files.room = None
        await life.keep(4)
        numbers, end = await life.read(3)
        assert (numbers, end.following, end.reason, end.gaps) == ([4], 4, "", ())
        await life.end()

    run(scene())


def test_the_latest_position_lies_before_an_open_gap_and_a_page_of_one_record_holds_one() -> None:
    async def scene() -> None:
        files = VirtualFiles()
        life = Life(files, 3)
        await life.keep(1)
        assert (await life.read(-2))[1].following == 2
        files.room = 0
        await life.keep(2)
        numbers, end = await life.read(-2)
        assert (numbers, end.following, end.end, end.reason) == ([], 2, 3, "")
        numbers, end = await life.read(1, size=1, allow_gaps=True)
        assert (numbers, end.following, end.gaps) == ([1], 2, ())
        numbers, end = await life.read(-1, time_us=1 << 60)
        assert end.gaps[0].position == 2, "nothing is kept of that time"
        numbers, end = await life.read(4)
        assert "position 4 is not kept" in end.reason
        await life.end()

    run(scene())


def test_the_next_life_marks_a_gap_that_was_open_when_the_process_died() -> None:
    async def scene() -> None:
        files = VirtualFiles()
        life = Life(files, 3)
        await life.keep(1)
        files.room = 0
        await life.keep(2)
        _, end = await life.read(2)
        life.durable.stop()
        assert life.missed[0].bundles == 1
        files.room = None
        life = Life(files, 4)
        await life.keep(3)
        assert [position for position, _ in marks_of(life)] == [0, 2]
        (gap,) = (await life.read(2))[1].gaps
        assert (gap.position, gap.following, gap.from_us) == (2, 3, end.gaps[0].from_us)
        assert gap.reason == "broker b0 was down between its lives 3 and 4"
        assert (await life.read(3))[0] == [3], "whoever was told of the gap goes on"
        await life.end()

    run(scene())


def test_a_life_that_cannot_write_its_own_mark_writes_one_for_both_gaps() -> None:
    async def scene() -> None:
        files = VirtualFiles()
        life = Life(files, 3)
        await life.keep(1)
        await life.end()
        before = everything(life.journal)[-1]
        files.room = 0
        life = Life(files, 4)
        await life.durable.settle()
        (gap,) = (await life.read(2))[1].gaps
        assert gap.until_us == 0 and "lives 3 and 4, and has left out 0 bundles since" in gap.reason
        files.room = None
        await life.keep(2)
        assert [mark for _, mark in marks_of(life)] == [CoverageMark(3), CoverageMark(4, 3, before.time_us)]
        await life.end()
        files.room = 40
        life = Life(files, 5)
        await life.keep(3)
        down = "broker b0 was down between its lives 4 and 5, and "
        _, end = await life.read(4)
        assert matches(end.gaps[0].reason, rf"^{down}has left out 1 bundle since {T}: ")
        files.room = None
        await life.keep(4)
        _, end = await life.read(4)
        assert matches(end.gaps[0].reason, rf"^{down}left out 1 bundle between {T} and {T}: ")
        assert life.missed[0].bundles == 1, "the mark is not counted as a bundle"
        await life.end()

    run(scene())


def test_events_left_out_at_the_very_beginning_of_a_journal_are_a_gap() -> None:
    async def scene() -> None:
        files = VirtualFiles()
        opened(files, OPTIONS)
        files.room = 0
        life = Life(files, 3)
        await life.keep(1)
        for position in (-1, 0):
            (gap,) = (await life.read(position))[1].gaps
            assert (gap.position, gap.following, gap.from_us) == (0, 1, 0) and "was down" not in gap.reason
        files.room = None
        await life.keep(2)
        _, end = await life.read(-1)
        assert matches(end.gaps[0].reason, rf"^broker b0 left out 1 bundle between {T} and {T}: ")
        assert (await life.read(1))[0] == [2]
        await life.end()

    run(scene())


def test_a_mark_that_is_written_and_cannot_be_synced_ends_the_gap() -> None:
    async def scene() -> None:
        files = VirtualFiles()
        life = Life(files, 3)
        await life.keep(1)
        files.room = 0
        await life.keep(2)
        files.room = None

        def fail(what: str, name: str) -> None:
            if what == "sync":
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        files.before = fail
        await life.keep(3)
        files.before = lambda what, name: None
        await life.keep(4)
        assert [position for position, _ in marks_of(life)] == [0, 2]
        assert (await life.read(allow_gaps=True))[0] == [1, 3, 4] and len(life.missed) == 1
        await life.end()

    run(scene())
