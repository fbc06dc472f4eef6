"""A replica whose fellow members are reached by sessions: what it says goes there, what it decides comes back in order.

For stacks that stand on `replicas`: one group each of this broker. Its owner has the state (`GroupOwner`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from resprout.core import limits
from resprout.core.contract import Effect, Persist, ProtocolMessage, Send, SetTimer
from resprout.replicas.ledger import Chosen, HeartbeatDue, News, PatienceOver, Restored
from resprout.replicas.messages import Accept
from resprout.replicas.replica import Replica
from resprout.replicas.sessions import SessionRepeats
from resprout.stacks.shell import Step

SNAPSHOT_SLOTS: Final = 512
"""Slots between two snapshots: what the log has more is in memory, and what a newcomer is told."""
SNAPSHOT_LOG_BYTES: Final = 16 << 20
"""So many bytes of commands are as good a reason for one as so many slots."""
SNAPSHOT_BYTES_MAX: Final = limits.FRAME_BYTES - (1 << 16)
"""A larger state waits: it is large because somebody does not read, and publishers are held back by then."""


class GroupOwner(Protocol):
    def learn(self, news: News) -> None:
        """One after the other, whatever the owner proposes meanwhile."""

    def dump(self) -> bytes:
        """The state after all that it has learned."""


class ReplicaInSessions:
    def __init__(
        self,
        replica: Replica,
        step: Step,
        owner: GroupOwner,
        post: Callable[[str, ProtocolMessage], None],
        identity: bytes = b"",
    ) -> None:
        """`post`: says something to a member. `identity`: the first record on disk, for the owner's next run; without
        one, nothing is written."""
        self.replica: Final = replica
        self._step = step
        self._owner = owner
        self._post = post
        self._identity = identity
        self._told = 0
        """Slots up to here were told to be decided (`tell`)."""
        self._repeats = SessionRepeats()
        self._news: deque[News] = deque()
        self._is_running = False
        self._snapshot_due = SNAPSHOT_SLOTS
        self._log_bytes = 0
        """Of the commands that were decided since the last one."""

    def begin(self, patience_us: int, stands: bool, records: Sequence[bytes] | None = None) -> None:
        """`stands`: nobody leads yet, and nobody need wait to find that out. `records`: what an earlier run of this
        replica wrote behind its identity. ValueError for other bytes."""
        out: list[Effect] = []
        now_us = self._step.now_us
        if self._identity and records is None:
            self._step.persist(self._identity)
        news = self.replica.start(now_us - patience_us if stands else now_us, out, records or ())
        if stands:
            news += self.replica.fired(PatienceOver(self.replica.group), now_us, out)
        self._take(news, out)

    def hear(self, member: str, message: ProtocolMessage) -> None:
        self._repeats.hear(member, message)
        out: list[Effect] = []
        self._take(self.replica.hear(member, message, self._step.now_us, out), out)

    def fired(self, timer: HeartbeatDue | PatienceOver) -> None:
        out: list[Effect] = []
        self._take(self.replica.fired(timer, self._step.now_us, out), out)

    def wake(self) -> None:
        out: list[Effect] = []
        self._take(self.replica.wake(self._step.now_us, out), out)

    def stand(self) -> None:
        out: list[Effect] = []
        self._take(self.replica.stand(self._step.now_us, out), out)

    def configure(self, members: Sequence[str]) -> None:
        out: list[Effect] = []
        self._take(self.replica.configure(members, self._step.now_us, out)[1], out)

    def propose(self, command: bytes) -> bool:
        """False when this replica does not lead, or too much waits."""
        out: list[Effect] = []
        taken, news = self.replica.propose(command, self._step.now_us, out)
        self._take(news, out)
        return taken

    def tell(self) -> None:
        """By a leader: what is decided, without waiting for the next sign of life."""
        replica, ledger = self.replica, self.replica.ledger
        if replica.is_leading and self._told < ledger.chosen:
            self._told = ledger.chosen
            for member in ledger.members:
                accept = Accept(replica.group, ledger.promised, ledger.chosen + 1, (), ledger.chosen)
                if member != replica.name and not self._repeats.is_repeat(member, accept):
                    self._post(member, accept)

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """What was said to these members may be lost."""
        self._repeats.forget(is_gone)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _take(self, news: Sequence[News], effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                if not self._repeats.is_repeat(effect.peer, effect.message):
                    self._post(effect.peer, effect.message)
            elif isinstance(effect, SetTimer):
                self._step.out.append(effect)
            elif isinstance(effect, Persist) and self._identity:
                self._step.persist(effect.record)
        self._news += news
        if self._is_running:
            return
        self._is_running = True
        while self._news:
            one = self._news.popleft()
            if isinstance(one, Restored):
                self._snapshot_due = one.snapshot.slot + SNAPSHOT_SLOTS
                self._log_bytes = 0
            elif isinstance(one, Chosen):
                self._log_bytes += len(one.entry.command)
            self._owner.learn(one)
        self._is_running = False
        self._keep_snapshot()

    def _keep_snapshot(self) -> None:
        if self.replica.ledger.chosen >= self._snapshot_due or self._log_bytes >= SNAPSHOT_LOG_BYTES:
            self._log_bytes = 0
            self._snapshot_due = self.replica.ledger.chosen + SNAPSHOT_SLOTS
            state = self._owner.dump()
            if len(state) <= SNAPSHOT_BYTES_MAX:
                records = [self._identity, *self.replica.snapshot(state, [])]
                if self._identity:
                    for record in records:
                        self._step.persist(record)
                    self._step.forget_records(len(records))
