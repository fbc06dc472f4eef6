"""The feeder of a log: it sends messages of the feed to the leader, and reports which ones a majority has.

It numbers its commands from 1 on, sends each once, and keeps it until the leader confirms that the log has it. After a
change of leader, or some time without progress, it sends unconfirmed commands again. Replicas detect the repeats.
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
"""Most commands that are sent again in one step."""


class _Fed(msgspec.Struct):
    number: int
    command: bytes
    bundle: Bundle | None
    """The bundle of the command; None for a gap mark or a beginning."""


class LogFeeder:
    def __init__(
        self,
        declaration: LogDeclaration,
        name: str,
        leader: str,
        port: LogPort,
        done: Callable[[Bundle], None],
    ) -> None:
        """`name`: the unique name of this feeder, never used by another one. `leader`: the broker to send to first.
        `done`: called for each bundle that a majority has, in order."""
        self.declaration = declaration
        self._name = name
        self._port = port
        self._done = done
        self._run = 1
        self._last = 0
        """Number of the last command."""
        self._sent = 0
        """Number of the last command that was sent to the leader."""
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
        """Number of the last command."""
        return self._last

    @property
    def waiting(self) -> int:
        """Number of commands that are not confirmed yet."""
        return len(self._waiting)

    # -- what the feed was handed --------------------------------------------------------------------------------------

    def begin(self, time_us: int) -> None:
        """Send the command for a new subscription, which has handed out nothing yet."""
        self._add(LogCommand(self.feed, self._last + 1, time_us, -1, begins=True))

    def hand(self, bundle: Bundle, tseq: int, time_us: int) -> None:
        self._last += 1
        command = bundle_command(self.feed, self._last, time_us, tseq, bundle)
        self._waiting.append(_Fed(self._last, command, bundle))
        self._send_on()

    def note_gap(self, reason: str, time_us: int) -> None:
        """Send a gap mark: messages may be missing before the next bundle."""
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
        self._port.send(self.leader, LogFeed(self.declaration.key, self.feed, fed.number, fed.command))

    def _send_from(self, number: int, most: int = BURST) -> None:
        """Send up to `most` commands from `number` on. The following ones are sent as these are confirmed."""
        if not self.leader or not self._waiting:
            return
        skipped = max(0, number - self._waiting[0].number)
        for fed in list(self._waiting)[skipped : skipped + most]:
            self._sent = fed.number
            self._send(fed)

    # -- what the leader says ------------------------------------------------------------------------------------------

    def hear_fed(self, broker: str, message: LogFed) -> None:
        if message.feed != self.feed:
            return
        self._progress = True
        while self._waiting and self._waiting[0].number <= message.upto:
            one = self._waiting.popleft()
            if one.bundle is not None:
                self._done(one.bundle)
        if broker != self.leader:
            self.hear_led(broker)
        elif message.expected and self._waiting:
            if message.expected < self._waiting[0].number:
                self._start_new_feed()
            else:
                self._send_from(message.expected)
        elif self._sent < self._last:
            self._send_from(self._sent + 1)

    def hear_led(self, leader: str) -> None:
        """Send unconfirmed commands to `leader`, which leads the log according to a replica."""
        if leader and leader != self.leader:
            self.leader = leader
            self._progress = True
            self._send_from(self._waiting[0].number if self._waiting else 0)

    def link_up(self, broker: str) -> None:
        """Send unconfirmed commands again, since those of an earlier session with the leader may be lost."""
        if broker == self.leader and self._waiting:
            self._send_from(self._waiting[0].number)

    def tick(self) -> None:
        """Send the first unconfirmed command to the next replica if the leader has not answered since the last tick."""
        if self._waiting and not self._progress:
            replicas = self.declaration.replicas
            self._turn += 1
            self.leader = replicas[self._turn % len(replicas)]
            self._send_from(self._waiting[0].number, 1)
        self._progress = False

    def _start_new_feed(self) -> None:
        """Start a new feed with the unconfirmed commands, because the replicas have forgotten this one."""
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
