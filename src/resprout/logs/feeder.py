"""The feeder of a log: it passes what the feed was handed to the leader, and tells when a majority has it.

It numbers commands from 1 on, sends each to the leader once, and keeps them until the leader says that they are in the
log. What may be lost is sent again: to a new leader, or after a time without progress. The replicas find repeats.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import LogFed, LogFeed, LogPort
from resprout.logs.records import LogCommand, bundle_command, read_command, to_bytes

BURST: Final = 512
"""Commands that are sent again at once."""


class _Fed(msgspec.Struct):
    number: int
    command: bytes
    bundle: Bundle | None
    """None for a command that brings none."""


class LogFeeder:
    def __init__(
        self,
        declaration: LogDeclaration,
        name: str,
        leader: str,
        port: LogPort,
        done: Callable[[Bundle], None],
    ) -> None:
        """`name`: of no other feeder, ever. `leader`: the broker to begin with. `done` is told of each bundle that a
        majority has, in order."""
        self._declaration = declaration
        self._name = name
        self._port = port
        self._done = done
        self._run = 1
        self._last = 0
        """The number of the last command."""
        self._sent = 0
        """Commands up to this number were sent to the leader."""
        self._waiting: deque[_Fed] = deque()
        self.leader = leader
        self._progress = True
        """Whether the leader has answered since the last `tick`."""
        self._turn = 0

    @property
    def feed(self) -> str:
        return f"{self._name}.{self._run}"

    @property
    def last(self) -> int:
        """The number of the last command."""
        return self._last

    @property
    def waiting(self) -> int:
        """Commands that are not known to be in the log."""
        return len(self._waiting)

    # -- what the feed was handed --------------------------------------------------------------------------------------

    def begin(self, time_us: int) -> None:
        """The subscription is new, and was given nothing before this."""
        self._add(LogCommand(self.feed, self._last + 1, time_us, -1, begins=True))

    def hand(self, bundle: Bundle, tseq: int, time_us: int) -> None:
        self._last += 1
        command = bundle_command(self.feed, self._last, time_us, tseq, bundle)
        self._waiting.append(_Fed(self._last, command, bundle))
        self._send_on()

    def note_gap(self, reason: str, time_us: int) -> None:
        """Messages may be missing before whatever is handed next."""
        self._add(LogCommand(self.feed, self._last + 1, time_us, -1, gap=reason))

    def _add(self, command: LogCommand) -> None:
        self._last = command.number
        self._waiting.append(_Fed(self._last, to_bytes(command), None))
        self._send_on()

    def _send_on(self) -> None:
        if self._last == self._sent + 1 and self.leader:
            self._sent = self._last
            self._send(self._waiting[-1])

    def _send(self, fed: _Fed) -> None:
        self._port.send(self.leader, LogFeed(self._declaration.name, self.feed, fed.number, fed.command))

    def _send_from(self, number: int, most: int = BURST) -> None:
        """What is behind these is sent as they are taken."""
        if not self.leader or not self._waiting:
            return
        skipped = max(0, number - self._waiting[0].number)
        for fed in list(self._waiting)[skipped : skipped + most]:
            self._sent = fed.number
            self._send(fed)

    # -- what the leader says ------------------------------------------------------------------------------------------

    def fed(self, broker: str, message: LogFed) -> None:
        if message.feed != self.feed:
            return
        self._progress = True
        while self._waiting and self._waiting[0].number <= message.upto:
            one = self._waiting.popleft()
            if one.bundle is not None:
                self._done(one.bundle)
        if broker != self.leader:
            self.led(broker)
        elif message.expected and self._waiting:
            if message.expected < self._waiting[0].number:
                self._begin_again()
            else:
                self._send_from(message.expected)
        elif self._sent < self._last:
            self._send_from(self._sent + 1)

    def led(self, leader: str) -> None:
        """This broker leads, says a replica."""
        if leader and leader != self.leader:
            self.leader = leader
            self._progress = True
            self._send_from(self._waiting[0].number if self._waiting else 0)

    def link_up(self, broker: str) -> None:
        """A session with a broker begins: whatever was sent in an earlier one may be lost."""
        if broker == self.leader and self._waiting:
            self._send_from(self._waiting[0].number)

    def tick(self) -> None:
        """From time to time: without an answer, try one replica after the other."""
        if self._waiting and not self._progress:
            replicas = self._declaration.replicas
            self._turn += 1
            self.leader = replicas[self._turn % len(replicas)]
            self._send_from(self._waiting[0].number, 1)
        self._progress = False

    def _begin_again(self) -> None:
        """The replicas have forgotten this feed: what is not in the log is the beginning of another one."""
        self._run += 1
        waiting: Sequence[_Fed] = list(self._waiting)
        self._waiting.clear()
        for number, one in enumerate(waiting, 1):
            command = read_command(one.command)
            assert command is not None, "it was written here"
            again = msgspec.structs.replace(command, feed=self.feed, number=number)
            self._waiting.append(_Fed(number, to_bytes(again), one.bundle))
        self._last = len(waiting)
        self._send_from(1)
