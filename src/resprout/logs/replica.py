"""A replica of a log: it votes on commands, applies those that are decided, and keeps the entries on its disk.

`Replica` of the floor below decides (Multi-Paxos); `state` says what becomes of a command; `entries` keeps the result.
This puts them together for one log: what is read from disk at the start, snapshots, how the leader takes commands from
feeders, who catches up from whom, and which replicas are members.

The identity of a replica is that of its disk: the broker, and the life in which it began with an empty one. Members are
identities, so a replica that has lost its disk never votes in place of the one that it was.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from resprout.core.contract import Effect, Persist, ProtocolMessage, Send
from resprout.journal.interface import OpenStore, StoreFetched, StoreForget, StoreOpened, StoreRecord
from resprout.logs.declaration import LogDeclaration
from resprout.logs.entries import LogEntryStore
from resprout.logs.messages import (
    LogAsk,
    LogEntries,
    LogFed,
    LogFeed,
    LogFetch,
    LogFound,
    LogLed,
    LogPort,
    LogSettle,
    LogSettled,
    LogTold,
    broker_of,
    group_of,
    identity_of,
)
from resprout.logs.reading import LogReader, RemoteReads
from resprout.logs.records import ReplicaIdentity, identity_record, ledger_record, read_votes
from resprout.logs.settling import PositionSettling
from resprout.logs.state import LogState
from resprout.replicas.ledger import Chosen, HeartbeatDue, Led, News, PatienceOver, Restored
from resprout.replicas.messages import Accept, Fetch, Lead, ReplicaOptions
from resprout.replicas.replica import Replica
from resprout.replicas.sessions import SessionRepeats

SNAPSHOT_SLOTS: Final = 512
"""Slots between two snapshots: what was decided since then is in memory, and is read again after a restart."""
SNAPSHOT_BYTES: Final = 16 << 20
"""So many bytes of commands are as good a reason for one."""
LAG_MAX: Final = 64
"""A replica becomes a member when it lacks no more entries than this: the rest comes with the first decisions."""


class LogReplica:
    def __init__(
        self,
        declaration: LogDeclaration,
        broker: str,
        incarnation: int,
        rng: Random,
        port: LogPort,
        options: ReplicaOptions | None = None,
        snapshot_slots: int = SNAPSHOT_SLOTS,
    ) -> None:
        self.declaration: Final = declaration
        self.broker: Final = broker
        self.identity = ""
        """Empty until its disk was read."""
        self.entries: Final = LogEntryStore(declaration, port)
        self.state: Final = LogState()
        self._settling = PositionSettling(self.state, port)
        self.reader: Final = LogReader(declaration, self.entries, port, self._decided_end)
        self.remote_reads: Final = RemoteReads(declaration.name, broker, self, self.reader, port)
        self.trouble = ""
        """Why it does not take part."""
        self._life = incarnation
        self._rng = rng
        self._port = port
        self._options = options or ReplicaOptions()
        self._snapshot_slots = snapshot_slots
        self._replica: Replica | None = None
        self._founders: tuple[str, ...] = ()
        self._repeats = SessionRepeats()
        self._votes: Sequence[bytes] = ()
        self._unopened = {declaration.votes, declaration.entries}
        self._answers: dict[str, str] = {}
        """By broker: the identity of a replica that knows no configuration."""
        self._ready: dict[str, str] = {}
        """By broker: the identity of a replica that could become a member."""
        self._proposed: dict[str, int] = {}
        """While leading, by feed: the number of the last command that was proposed."""
        self.feeders: dict[str, str] = {}
        """By feed: the broker of its feeder."""
        self._fed: dict[str, int] = {}
        """By feed: the number up to which its feeder was told."""
        self._snapshot_slot = 0
        self._bytes = 0
        """Of commands since the last snapshot."""
        self._turn = 0
        """Which member is asked for entries next."""
        self._told_decided = -1
        """Slots up to here are decided, as the leader said; -1: it has said nothing."""
        self._lagged_at = -1
        """Slots that were known here at the last tick, if the leader knew more."""
        self.leaderless_since_us: int | None = None
        """Since when it knows no leader that a majority follows; None while it does."""
        self.behind_since_us: int | None = None
        """Since when it lacks something that the leader has; None when it had everything at the last tick but one."""
        self._wanted_slot = 0
        """Slots that the leader had at the last tick."""
        self._is_caught_up = False
        """In this life it has known everything that was decided, as far as the leader said."""

    # -- the disk ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._port.do(OpenStore(self.declaration.votes, self.declaration.vote_options, is_read=True))
        self.entries.open()

    def opened(self, event: StoreOpened, now_us: int) -> None:
        if event.reason:
            self.trouble = event.reason
            return
        self._unopened.discard(event.store)
        if event.store == self.declaration.votes:
            self._votes = event.records
        else:
            self.entries.opened(event)
        if self._unopened or self.trouble:
            return
        try:
            kept, ledger = read_votes(list(self._votes))
            if kept is None:
                kept = ReplicaIdentity(identity_of(self.broker, self._life))
                self._write(identity_record(kept))
            self.identity, self._founders = kept.identity, kept.founders
            self._start(ledger, now_us)
        except ValueError as error:
            self._replica, self.trouble = None, str(error)
        self._votes = ()

    def _start(self, ledger: Sequence[bytes], now_us: int) -> None:
        group = group_of(self.declaration.name, self.identity)
        replica = self._replica = Replica(group, self.identity, self._founders, self._rng, self._options)
        out: list[Effect] = []
        self._take(replica.start(now_us, out, ledger), out, now_us)
        if self.is_member:  # what others said in this session before was not heard
            for broker in {broker_of(member): None for member in self.members if member != self.identity}:
                self._port.send(broker, LogAsk(self.declaration.name, self.identity, self.entries.end))

    def _write(self, record: bytes) -> None:
        self._port.write(StoreRecord(self.declaration.votes, record))

    def _keep_snapshot(self) -> None:
        replica = self._replica
        if replica is None or self.entries.end < self.state.next:  # what is not on this disk is not forgotten
            return
        slots = replica.ledger.chosen - self._snapshot_slot
        if slots >= self._snapshot_slots or self._bytes >= SNAPSHOT_BYTES:
            self._snapshot_slot, self._bytes = replica.ledger.chosen, 0
            ledger = replica.snapshot(self.state.dump(), [])
            identity = identity_record(ReplicaIdentity(self.identity, self._founders))
            records = [identity, *[ledger_record(record) for record in ledger]]
            for record in records:
                self._write(record)
            self._port.write(StoreForget(self.declaration.votes, len(records)))

    # -- what is decided -----------------------------------------------------------------------------------------------

    @property
    def members(self) -> tuple[str, ...]:
        return self._replica.ledger.members if self._replica is not None else ()

    @property
    def is_member(self) -> bool:
        return self.identity in self.members

    @property
    def is_leading(self) -> bool:
        return self._replica is not None and self._replica.is_leading

    @property
    def leader(self) -> str:
        """The broker of the leader, as far as this replica knows; empty when it knows none."""
        leader = self._replica.leader if self._replica is not None else None
        return broker_of(leader) if leader is not None else ""

    @property
    def is_complete(self) -> bool:
        """Whether every entry that this replica knows of is on its disk."""
        return self.is_member and self.entries.end >= self.state.next

    @property
    def can_read(self) -> bool:
        """Whether it may read for clients: one that returned, or follows no leader, may not know what is missing."""
        return self.is_complete and self._is_caught_up and bool(self.leader)

    @property
    def origin(self) -> int:
        return self.state.origin

    def _decided_end(self) -> tuple[int, int]:
        return self.state.next, self.state.end

    def knows(self, broker: str) -> bool:
        """Whether a broker keeps a replica of this log, as it is declared or as it was."""
        return broker in self.declaration.replicas or broker in map(broker_of, self.members)

    def hear_replica(self, speaker: str, message: ProtocolMessage, now_us: int) -> None:
        """What another replica of this log says."""
        if self._replica is not None:
            self._repeats.hear(speaker, message)
            if isinstance(message, Lead):
                self._told_decided = message.chosen
            out: list[Effect] = []
            self._take(self._replica.hear(speaker, message, now_us, out), out, now_us)

    def fired(self, timer: HeartbeatDue | PatienceOver, now_us: int) -> None:
        if self._replica is not None:
            out: list[Effect] = []
            self._take(self._replica.fired(timer, now_us, out), out, now_us)

    def link_up(self, broker: str) -> None:
        """A session with a broker begins: whatever was said in an earlier one may be lost."""
        self._repeats.forget(lambda member: broker_of(member) == broker)
        self.entries.ask_again()

    def _take(self, news: Sequence[News], effects: Sequence[Effect], now_us: int) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                self._write(ledger_record(effect.record))
            elif isinstance(effect, Send):
                if not self._repeats.is_repeat(effect.peer, effect.message):
                    self._port.send(broker_of(effect.peer), effect.message)
            else:
                self._port.do(effect)
        for one in news:
            if isinstance(one, Chosen):
                self._apply(one)
            elif isinstance(one, Restored):
                self._restore(one)
            elif isinstance(one, Led):
                self._proposed.clear()
                self._settling.forget()
        if news:
            self._tell_decided()
            self._tell_feeders()
            if self.is_leading:
                self._settling.look()
            self._catch_up()
            self._keep_snapshot()
        self._look_at_readers()

    def _look_at_readers(self) -> None:
        replica = self._replica
        if replica is not None and not self._is_caught_up:
            is_told = 0 <= self._told_decided <= replica.ledger.chosen
            self._is_caught_up = replica.is_leading or is_told
        if self.can_read:
            self.reader.look()

    def _apply(self, chosen: Chosen) -> None:
        command = chosen.entry.command
        self._bytes += len(command)
        number = self.state.next
        for place, record in enumerate(self.state.apply(command) if command else ()):
            self.entries.put(number + place, record)

    def _restore(self, restored: Restored) -> None:
        try:
            self.state.load(restored.snapshot.state)
        except ValueError as error:
            self._replica, self.trouble = None, str(error)
        self._snapshot_slot, self._bytes = restored.snapshot.slot, 0

    def _tell_decided(self) -> None:
        """By a leader with nothing under way: followers need not wait for the next sign of life."""
        replica = self._replica
        if replica is None or not replica.is_leading or replica.ledger.chosen + 1 in replica.ledger.votes:
            return
        ledger = replica.ledger
        accept = Accept(replica.group, ledger.promised, ledger.chosen + 1, (), ledger.chosen)
        for member in ledger.members:
            if member != self.identity and not self._repeats.is_repeat(member, accept):
                self._port.send(broker_of(member), accept)

    # -- what feeders bring --------------------------------------------------------------------------------------------

    def hear_feed(self, broker: str, message: LogFeed, now_us: int) -> None:
        replica = self._replica
        if replica is None or not replica.is_leading:
            self._port.send(broker, LogLed(self.declaration.name, self.leader))
            return
        feed, number = message.feed, message.number
        for other in [other for other, at in self.feeders.items() if at == broker and other != feed]:
            del self.feeders[other]  # a broker has one feeder of a log
        self.feeders[feed] = broker
        applied = self.state.feeds.get(feed, 0)
        expected = max(self._proposed.get(feed, 0), applied) + 1
        if number <= applied:
            self._port.send(broker, LogFed(self.declaration.name, feed, applied))
        elif number > expected:
            self._port.send(broker, LogFed(self.declaration.name, feed, applied, expected))
        elif number == expected:
            out: list[Effect] = []
            taken, news = replica.propose(message.command, now_us, out)
            if taken:
                self._proposed[feed] = number
            self._take(news, out, now_us)

    def _tell_feeders(self) -> None:
        """By the leader: what a majority has."""
        if not self.is_leading:
            self._fed.clear()
            return
        for feed, broker in list(self.feeders.items()):
            applied = self.state.feeds.get(feed, 0)
            if feed not in self.state.feeds and feed not in self._proposed:
                del self.feeders[feed]
            elif applied > self._fed.get(feed, 0):
                self._fed[feed] = applied
                self._port.send(broker, LogFed(self.declaration.name, feed, applied))

    # -- who is a member -----------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> None:
        """From time to time: ask again for what was not answered."""
        if self._replica is None:
            return
        self.entries.ask_again()
        self.reader.tick()
        self._look_at_health(self._replica, now_us)
        if self.is_member:
            self._ask_for_decisions(self._replica)
            self._catch_up()
            self._change_members(now_us)
            return
        self._found(now_us)
        for broker in self.declaration.replicas:
            if broker != self.broker and not self.is_member:
                self._port.send(broker, LogAsk(self.declaration.name, self.identity, self.entries.end))

    def _look_at_health(self, replica: Replica, now_us: int) -> None:
        """What is under way is not behind: it is late when it was known a tick ago, and is still not here."""
        is_late = replica.ledger.chosen < self._wanted_slot or self.entries.end < self.state.next or not self.is_member
        self._wanted_slot = max(self._told_decided, replica.ledger.chosen)
        since_us = now_us if self.leaderless_since_us is None else self.leaderless_since_us
        self.leaderless_since_us = None if self.has_leader(now_us) else since_us
        since_us = now_us if self.behind_since_us is None else self.behind_since_us
        self.behind_since_us = since_us if is_late else None

    def has_leader(self, now_us: int) -> bool:
        """Whether it follows a leader, or leads with a majority behind it."""
        replica = self._replica
        if replica is None:
            return False
        return replica.has_lease(now_us) if replica.is_leading else replica.leader is not None

    def _ask_for_decisions(self, replica: Replica) -> None:
        """Without progress since the last tick: what was said of decisions crossed an answer that had none."""
        chosen = replica.ledger.chosen
        if chosen < self._told_decided and replica.leader is not None and not replica.is_leading:
            if self._lagged_at == chosen:
                self._port.send(broker_of(replica.leader), Fetch(replica.group, chosen))
            self._lagged_at = chosen

    def hear_ask(self, broker: str, message: LogAsk, now_us: int) -> None:
        if self._replica is None or broker_of(message.identity) != broker:
            return
        self._repeats.forget(lambda member: member == message.identity)
        if message.identity in self._founders and message.identity in self.members:
            self._port.send(broker, LogFound(self.declaration.name, self._founders))
            return
        if self.members and self.entries.end - message.end <= LAG_MAX:
            self._ready[broker] = message.identity
        elif self.members:
            self._ready.pop(broker, None)
        told = LogTold(self.declaration.name, self.identity, self.members, self.entries.first, self.entries.end)
        self._port.send(broker, told)

    def hear_told(self, broker: str, message: LogTold, now_us: int) -> None:
        if self.is_member or broker_of(message.identity) != broker:
            return
        if not message.members:
            self._answers[broker] = message.identity
            self._found(now_us)
            return
        self._answers.clear()  # the log exists: nobody founds it
        if message.end > self.entries.end:
            self.entries.fetch(broker)

    def hear_found(self, broker: str, message: LogFound, now_us: int) -> None:
        if self._replica is None or self.members or self.identity not in message.members:
            return
        self._be_founded(message.members, now_us)

    def _found(self, now_us: int) -> None:
        """By the first declared broker, when all others have said that they know of no log."""
        replicas = self.declaration.replicas
        if self.broker != replicas[0] or self.members or self._replica is None:
            return
        others = [self._answers[broker] for broker in replicas[1:] if broker in self._answers]
        if len(others) == len(replicas) - 1:
            self._be_founded((self.identity, *others), now_us)
            for identity in others:
                self._port.send(broker_of(identity), LogFound(self.declaration.name, self._founders))
            out: list[Effect] = []
            self._take(self._replica.stand(now_us, out), out, now_us)  # nobody leads yet

    def _be_founded(self, members: tuple[str, ...], now_us: int) -> None:
        """It may have promised something before it knew the members: that stays."""
        assert self._replica is not None, "its disk was read"
        self._founders = members
        self._write(identity_record(ReplicaIdentity(self.identity, members)))
        self._start(self._replica.ledger.records()[1:], now_us)  # but for the snapshot, which knows no members

    def _change_members(self, now_us: int) -> None:
        """By the leader, one step at a time: a declared broker whose replica is ready becomes a member, in place of an
        earlier identity of it. When all declared brokers are members, the others are left out."""
        replica = self._replica
        if replica is None or not replica.is_leading or not replica.has_lease(now_us):
            return
        members = replica.ledger.members
        at = {broker_of(member): member for member in members}
        wanted = list(members)
        for broker in self.declaration.replicas:
            identity = self._ready.pop(broker, at.get(broker))
            if identity is not None and identity not in members:
                wanted = [*[member for member in members if broker_of(member) != broker], identity]
                break
        else:
            if all(broker in at for broker in self.declaration.replicas):
                wanted = [member for member in members if broker_of(member) in self.declaration.replicas]
        if wanted != list(members):
            out: list[Effect] = []
            _, news = replica.configure(wanted, now_us, out)
            self._take(news, out, now_us)

    def _catch_up(self) -> None:
        """Fetch entries that were decided and are not here, from one member after the other."""
        if self.entries.end < self.state.next:
            others = [broker_of(member) for member in self.members if member != self.identity]
            if others:
                self.entries.fetch(others[self._turn % len(others)])

    def hear_fetch(self, broker: str, message: LogFetch) -> None:
        if self._replica is not None:
            self.entries.hear_fetch(broker, message)

    def fetched(self, event: StoreFetched) -> bool:
        """Return False for a token of another log."""
        return self.entries.fetched(event) or self.reader.fetched(event)

    def hear_entries(self, broker: str, message: LogEntries) -> None:
        if not self.entries.awaits(broker, message):
            return
        has_more = self.entries.hear_entries(message)
        if not has_more:
            self._turn += 1  # somebody else may have it
        elif not self.is_member and message.end > self.entries.end:
            self.entries.fetch(broker)
        if self.is_member and has_more:
            self._catch_up()
            self._keep_snapshot()
            self._look_at_readers()

    # -- positions of readers ------------------------------------------------------------------------------------------

    def hear_settle(self, broker: str, message: LogSettle, now_us: int, time_us: int) -> None:
        """A position of a reader; `time_us` since 1970."""
        replica = self._replica
        if replica is None or not replica.has_lease(now_us):
            told = LogSettled(self.declaration.name, message.id, -1, 0, 0, self.leader, is_leading=False)
            self._port.send(broker, told)
            return

        def propose(command: bytes) -> bool:
            out: list[Effect] = []
            taken, news = replica.propose(command, now_us, out)
            self._take(news, out, now_us)
            return taken

        self._settling.hear(broker, message, time_us, propose)
