"""What local clients published, kept on disk until it is safe elsewhere.

Within f crashes nobody needs it: others have a copy, and clients send again what they do not know to be safe. It is for
what lies beyond: a broker that dies together with its clients and neighbours. When it returns, it publishes again what
its new parent has not seen. Whoever had it drops it as a duplicate.

A record is on disk before the bundle leaves this broker (`stacks.shell.step`). `eventual` may arrive behind later
publications of the same client that went another way; ordered ones never do, they are dropped then.
"""

from collections import deque
from collections.abc import Sequence

from resprout.core.bundle import Bundle
from resprout.core.bundle_record import from_record, to_record
from resprout.core.guarantee import Guarantee
from resprout.order.entry import Entry
from resprout.stacks.resprout.core import Core


class DiskUntilSafe:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._kept: deque[Entry] = deque()
        """What has a record, oldest first."""
        self._found: list[Bundle] = []

    def keep(self, bundle: Bundle, entry: Entry) -> None:
        """Write a bundle that the log has accepted as this entry."""
        self._core.persist(to_record(bundle))
        self._kept.append(entry)

    def forget(self) -> None:
        """At the end of a step: records of what is safe now."""
        kept = self._kept
        if kept and kept[0].shown:
            while kept and kept[0].shown:
                kept.popleft()
            self._core.forget_records(len(kept))

    # -- after a restart -----------------------------------------------------------------------------------------------

    def recovered(self, records: Sequence[bytes]) -> None:
        for record in records:
            bundle = from_record(record)
            if bundle is None:
                self._core.note("recovery", "a record on disk cannot be read")
            else:
                self._found.append(bundle)

    def offer(self) -> None:
        """When this broker has its place: publish what nobody seems to have."""
        core, found = self._core, self._found
        if not found:
            return
        self._found = []
        lives: dict[tuple[str, str], int] = {}
        for mark in core.seen.marks():
            of = (mark.publisher, mark.stream)
            lives[of] = max(mark.incarnation, lives.get(of, 0))
        lost = [b for b in found if not core.seen.has(b) and b.incarnation >= lives.get((b.publisher, b.stream), 0)]
        core.note("recovery", f"{len(lost)} of {len(found)} bundles on disk are published again")
        for bundle in lost:
            again = bundle.stamped(core.clock.stamp_after(bundle.stamp))
            is_ordered = again.guarantee is not Guarantee.EVENTUAL
            if is_ordered and (core.totals.is_gated(again) or core.totals.own(again.publisher) is not None):
                core.totals.submit(again)  # what is carried needs no disk: all have it before anybody is told
                continue
            entry = core.forwarding.accept(again, None, None, 0, False)
            if entry is not None:
                self.keep(again, entry)
        core.log.held_back.put_wall()  # its publishers may be elsewhere, and have said it again there
        core.show()  # a broker that is alone has at once as many copies as there can be
        core.forget_records(len(self._kept))
