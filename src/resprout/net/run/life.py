"""One life of whoever stands for a client of a scenario, in real time, behind a socket: what is the same for all.

Rows are saved before anything that they speak of leaves the process, so that one which is killed has done nothing that
the trace does not know.
"""

from collections.abc import Callable, Collection, Mapping

from resprout.core.contract import Answer, Deliver, Machine, Note, Request
from resprout.edge.requests import LeaveRequest
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.bodies import EncodedBodies
from resprout.net.clock import now_us
from resprout.net.door import Door
from resprout.net.frames import Here
from resprout.net.host import Host, Upward
from resprout.net.run.row_file import RowWriter
from resprout.net.run.tally import Tally
from resprout.net.tls.keyring import Keyring
from resprout.scenario.observe import note_row
from resprout.scenario.seeds import random_for
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.wire.codec import Codec


class RealLife:
    """`seed`: of the scenario. `find` tells where brokers listen, `delays_us` how far away each one is; `given` is told
    what the machine has for its application, `on_note` hears at once of rows that are for people. `keyring`: with which
    it speaks TLS."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        incarnation: int,
        seed: int,
        codec: Codec,
        options: LinkOptions,
        find: Callable[[str], Address | None],
        delays_us: Mapping[str, int],
        writer: RowWriter,
        on_note: Callable[[Row], None],
        given: Callable[[Deliver | Answer], None],
        tally: Tally,
        keyring: Keyring | None,
    ) -> None:
        self.name = name
        self.tally = tally
        self.over = False
        links = Links(
            machine,
            name=name,
            role="client",
            incarnation=incarnation,
            rng=random_for(seed, "node", name, incarnation),
            options=options,
            bodies=EncodedBodies(codec),
        )
        delays_s = {broker: us / 1e6 for broker, us in delays_us.items()}
        here = Here(name, "client", incarnation)
        self._host = Host(links, codec, here, find, self._hear, delays_s=delays_s, door=Door(keyring))
        self._writer = writer
        self._on_note = on_note
        self._given = given
        self._start_us = 0
        self._started = False

    @property
    def is_subscribed(self) -> bool:
        """Whether every subscription was answered that it has asked for; of one that has left, none is awaited."""
        return self.over or (self._started and not self.tally.unconfirmed)

    @property
    def now_us(self) -> int:
        return now_us() - self._start_us

    def start(self, start_us: int) -> None:
        """`start_us`: time 0 of the run, on the clock of the machine."""
        self._start_us = start_us
        self._started = True
        self._host.start()

    def bar(self, peers: Collection[str]) -> None:
        self._host.bar(peers)

    async def leave(self) -> None:
        """In good order, as a part of the scenario."""
        if not self.over:
            self.record(Row(time_us=self.now_us, node=self.name, kind=kinds.LEAVE))
            await self.finish()

    async def finish(self) -> None:
        if not self.over:
            self.over = True
            self._writer.save()
            self._host.handle(Request(LeaveRequest()))
            await self._host.close()

    def record(self, row: Row) -> None:
        self.tally.count(row)
        self._writer.record(row)
        if row.kind == kinds.NOTE:
            self._on_note(row)

    def _hear(self, effect: Upward) -> None:
        if self.over:
            return
        if isinstance(effect, Note):
            self.record(note_row(self.now_us, self.name, effect.kind, effect.columns))
            return
        assert isinstance(effect, Deliver | Answer)
        self._given(effect)
