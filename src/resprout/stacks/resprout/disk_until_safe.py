"""What local clients published, kept on disk until it is safe elsewhere.

Within f crashes nobody needs it: others have a copy, and clients send again what they do not know to be safe. It is for
what lies beyond: a broker that dies together with its clients and neighbours. When it returns, it publishes again what
its new parent has not seen. Whoever had it drops it as a duplicate.

A record is on disk before the bundle leaves this broker (`stacks.shell.step`). `eventual` may arrive behind later
publications of the same client that went another way; ordered ones never do, they are dropped then.
"""

from collections import deque
from collections.abc import Sequence

from resprout.core.bundle import Bundle, from_record, to_record
from resprout.core.guarantee import Guarantee
from resprout.core.seen import Seen
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.log import Log
from resprout.order.totals.totals import Totals
from resprout.stacks.resprout.delivering import Delivering
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife


class DiskUntilSafe:
    def __init__(
        self,
        life: BrokerLife,
        log: Log,
        clock: Clock,
        seen: Seen,
        delivering: Delivering,
        totals: Totals,
        forwarding: Forwarding,
    ) -> None:
        self._life = life
        self._log = log
        self._clock = clock
        self._seen = seen
        self._delivering = delivering
        self._totals = totals
        self._forwarding = forwarding
        self._kept: deque[Entry] = deque()
        """What has a record, oldest first."""
        self._found: list[Bundle] = []

    def keep(self, bundle: Bundle, entry: Entry) -> None:
        """Write a bundle that the log has accepted as this entry."""
        self._life.persist(to_record(bundle))
        self._kept.append(entry)

    def forget(self) -> None:
        """At the end of a step: records of what is safe now."""
        kept = self._kept
        if kept and kept[0].shown:
            while kept and kept[0].shown:
                kept.popleft()
            self._life.forget_records(len(kept))

    # -- after a restart -----------------------------------------------------------------------------------------------

    def recovered(self, records: Sequence[bytes]) -> None:
        for record in records:
            bundle = from_record(record)
            if bundle is None:
                self._life.note("recovery", "a record on disk cannot be read")
            else:
                self._found.append(bundle)

    def offer(self) -> None:
        """When this broker has its place: publish what nobody seems to have."""
        life, found = self._life, self._found
        if not found:
            return
        self._found = []
        lives: dict[tuple[str, str], int] = {}
        for mark in self._seen.marks():
            of = (mark.publisher, mark.stream)
            lives[of] = max(mark.incarnation, lives.get(of, 0))
        lost = [b for b in found if not self._seen.has(b) and b.incarnation >= lives.get((b.publisher, b.stream), 0)]
        life.note("recovery", f"{len(lost)} of {len(found)} bundles on disk are published again")
        for bundle in lost:
            again = bundle.stamped(self._clock.stamp_after(bundle.stamp))
            is_ordered = again.guarantee is not Guarantee.EVENTUAL
            if is_ordered and (self._totals.is_gated(again) or self._totals.own(again.publisher) is not None):
                self._totals.submit(again)  # what is carried needs no disk: all have it before anybody is told
                continue
            entry = self._forwarding.accept(again, None, None, 0, False)
            if entry is not None:
                self.keep(again, entry)
        self._log.held_back.put_wall()  # its publishers may be elsewhere, and have said it again there
        self._delivering.show()  # a broker that is alone has at once as many copies as there can be
        life.forget_records(len(self._kept))
