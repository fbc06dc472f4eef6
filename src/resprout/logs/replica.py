"""A replica of a log: it votes on commands, applies the decided ones, and keeps the entries on its disk.

`replicas.Replica` decides commands (Multi-Paxos), `state` turns them into entries, and `entries` stores these. This
module combines them for one log. It restores a replica from disk, takes snapshots, accepts commands from feeders,
fetches missing entries, and changes the members.

The identity of a replica belongs to its disk: it names the broker and the life in which the disk was empty. Members are
identities, so a replica that has lost its disk never votes in place of the earlier one.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from resprout.core.contract import Effect, Persist, ProtocolMessage, Send
from resprout.journal.interface import (
    OpenStore,
    ResetStore,
    StoreFetched,
    StoreForget,
    StoreOpened,
    StoreRecord,
    StoreTrim,
)
from resprout.logs.compaction import LogCompactor
from resprout.logs.copying import CompactedCopies, CompactedCopy
from resprout.logs.declaration import LogDeclaration
from resprout.logs.entries import LogEntryStore
from resprout.logs.health import ReplicaHealth
from resprout.logs.intake import FeedIntake
from resprout.logs.membership import LAG_MAX, next_members
from resprout.logs.messages import (
    LogAsk,
    LogCopied,
    LogCopyAsk,
    LogEntries,
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
"""Slots between two snapshots. Commands since the last snapshot are in memory, and are read again after a restart."""
SNAPSHOT_BYTES: Final = 16 << 20
"""Bytes of commands after which a snapshot is taken earlier."""


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
        is_traced: bool = False,
    ) -> None:
        """`is_traced`: write a row for each message that compaction drops."""
        self.declaration = declaration
        self.broker: Final = broker
        self.identity = ""
        """Identity of this replica; empty until the disk has been read."""
        self.entries: Final = LogEntryStore(declaration, port)
        self.state: Final = LogState()
        self._settling = PositionSettling(self.state, port)
        self.reader: Final = LogReader(declaration, self.entries, port, self._decided_end)
        self.remote_reads: Final = RemoteReads(declaration.key, broker, self, self.reader, port)
        self.trouble = ""
        """Reason why this replica is stopped; empty if it is not."""
        self.damage = ""
        """Reason why some entries could not be read from the disk; empty if all could."""
        self._life = incarnation
        self._rng = rng
        self._port = port
        self._options = options or ReplicaOptions()
        self._snapshot_slots = snapshot_slots
        self._replica: Replica | None = None
        self._founders: tuple[str, ...] = ()
        self._repeats = SessionRepeats()
        self._votes: Sequence[bytes] = ()
        self._unopened = set(declaration.stores)
        self._met: tuple[str, ...] = ()
        """Brokers of the members, as told; the leader may not be declared any more."""
        self._answers: dict[str, str] = {}
        """Identities of replicas that know no configuration, by broker."""
        self._ready: dict[str, str] = {}
        """Identities of replicas that are ready to become members, by broker."""
        self.intake: Final = FeedIntake(declaration.key, self.state, port)
        self._compactor = LogCompactor(declaration, self.entries, port, is_traced)
        self._copies = CompactedCopies(declaration, self.entries, port)
        self._copy = CompactedCopy(declaration, self.entries, port)
        self._told_members: tuple[str, ...] = ()
        """Members when this leader last told what is decided."""
        self._snapshot_slot = 0
        self._bytes = 0
        """Bytes of commands since the last snapshot."""
        self._turn = 0
        """Counter that selects the next member to fetch entries from."""
        self._told_decided = -1
        """The last slot that is decided according to the leader; -1 if it has said nothing yet."""
        self._lagged_at = -1
        """The last known slot at the previous tick, if the leader had a later one."""
        self.health: Final = ReplicaHealth()
        self._is_caught_up = False
        """Whether it has caught up with the leader in this life."""
        self._led_slot = 0
        """The last slot that it had voted on when it began to lead: earlier leaders may have decided it."""

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
            kept = read_votes(self._votes)
            self.entries.restore(kept.compacted)
            if kept.identity is None:
                kept.identity = ReplicaIdentity(identity_of(self.broker, self._life))
                self._write(identity_record(kept.identity))
            self.identity, self._founders = kept.identity.identity, kept.identity.founders
            self._start(kept.ledger, now_us)
        except ValueError as error:
            self._replica, self.trouble = None, str(error)
        self._votes = ()

    def discard(self) -> None:
        """End this replica and drop its stores, because the log was deleted."""
        self._replica = None
        for store in self.declaration.stores:
            if store not in self._unopened:
                self._port.write(ResetStore(store, 0))

    def _start(self, ledger: Sequence[bytes], now_us: int) -> None:
        group = group_of(self.declaration.key, self.identity)
        replica = self._replica = Replica(group, self.identity, self._founders, self._rng, self._options)
        out: list[Effect] = []
        self._take(replica.start(now_us, out, ledger), out, now_us)
        if self.is_member:  # messages of members earlier in this session were ignored
            for broker in {broker_of(member): None for member in self.members if member != self.identity}:
                self._port.send(broker, LogAsk(self.declaration.key, self.identity, self.entries.end))

    def _write(self, record: bytes) -> None:
        self._port.write(StoreRecord(self.declaration.votes, record))

    def _keep_snapshot(self) -> None:
        replica = self._replica
        if replica is None or self.entries.end < self.state.next:  # votes are kept until the entries are on this disk
            return
        slots = replica.ledger.chosen - self._snapshot_slot
        if slots >= self._snapshot_slots or self._bytes >= SNAPSHOT_BYTES:
            self._snapshot_slot, self._bytes = replica.ledger.chosen, 0
            ledger = replica.snapshot(self.state.dump(), [])
            identity = identity_record(ReplicaIdentity(self.identity, self._founders))
            records = [identity, *self.entries.notes, *[ledger_record(record) for record in ledger]]
            self._port.write(StoreTrim(self.declaration.entries, 0))  # the snapshot relies on entries on the disk
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
        """Broker of the leader; empty if this replica knows none."""
        leader = self._replica.leader if self._replica is not None else None
        return broker_of(leader) if leader is not None else ""

    @property
    def is_complete(self) -> bool:
        """Whether all entries that this replica knows of are on its disk."""
        return self.is_member and self.entries.end >= self.state.next

    @property
    def can_read(self) -> bool:
        """Whether it may read for clients. A replica that has not caught up, or follows no leader, may lack entries
        unknowingly."""
        return self.is_complete and self._is_caught_up and bool(self.leader)

    @property
    def origin(self) -> int:
        return self.state.origin

    def _decided_end(self) -> tuple[int, int]:
        return self.state.next, self.state.end

    def knows(self, broker: str) -> bool:
        """Whether a broker keeps a replica of this log, as declared, as told, or as a current member."""
        return broker in {*self.declaration.replicas, *self._met, *map(broker_of, self.members)}

    def hear_replica(self, speaker: str, message: ProtocolMessage, now_us: int) -> None:
        """Handle a message of another replica of this log."""
        if self._replica is not None:
            self._repeats.hear(speaker, message)
            if isinstance(message, Lead):
                self._told_decided = message.chosen
            out: list[Effect] = []
            self._take(self._replica.hear(speaker, message, now_us, out), out, now_us)

    def fired(self, timer: HeartbeatDue | PatienceOver, now_us: int) -> None:
        """Handle a timer. A replica that is not declared any more votes, but does not stand for election."""
        is_former = self.broker not in self.declaration.replicas
        if self._replica is not None and not (is_former and isinstance(timer, PatienceOver)):
            out: list[Effect] = []
            self._take(self._replica.fired(timer, now_us, out), out, now_us)

    def link_up(self, broker: str) -> None:
        """Prepare for a new session with a broker: messages of an earlier session may be lost."""
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
                self.intake.led()
                self._led_slot = max(self._replica.ledger.votes, default=0) if self._replica is not None else 0
                self._settling.forget()
        if news:
            self._tell_decided()
            self.intake.tell(self.is_leading)
            decided = self.state.take_decided_positions()
            if self.is_leading:
                self._settling.look(decided)
            self._catch_up()
            self._keep_snapshot()
        self._look_at_readers()

    def _look_at_readers(self) -> None:
        replica = self._replica
        if replica is not None and not self._is_caught_up:
            told = self._led_slot if replica.is_leading else self._told_decided
            is_ahead = self.entries.end > self.state.next  # after a restart, until the leader decides again
            self._is_caught_up = 0 <= told <= replica.ledger.chosen and not is_ahead
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
        """Tell followers, if this leader has nothing pending, which slots are decided, before the next heartbeat
        does."""
        replica = self._replica
        if replica is None or not replica.is_leading or replica.ledger.chosen + 1 in replica.ledger.votes:
            return
        ledger = replica.ledger
        accept = Accept(replica.group, ledger.promised, ledger.chosen + 1, (), ledger.chosen)
        told, self._told_members = self._told_members, ledger.members
        for member in dict.fromkeys((*ledger.members, *told)):  # also those that have just been removed
            if member != self.identity and not self._repeats.is_repeat(member, accept):
                self._port.send(broker_of(member), accept)

    # -- what feeders bring --------------------------------------------------------------------------------------------

    def hear_feed(self, broker: str, message: LogFeed, now_us: int) -> None:
        replica = self._replica
        if replica is None or not replica.is_leading:
            self._port.send(broker, LogLed(self.declaration.key, self.leader))
            return
        if self.intake.hear(broker, message):
            out: list[Effect] = []
            taken, news = replica.propose(message.command, now_us, out)
            if taken:
                self.intake.proposed(message.feed, message.number)
            self._take(news, out, now_us)

    # -- who is a member -----------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> None:
        """Repeat unanswered requests, update the health figures, and change the members if that is due."""
        if self._replica is None:
            return
        self.entries.ask_again()
        self._turn += self._copy.tick()  # if a copy was given up, another member is asked
        if not self._copy.is_running:
            self._compactor.tick()
        self.reader.tick()
        chosen = self._replica.ledger.chosen
        self.health.look(now_us, self.has_leader(now_us), chosen, self._told_decided, self.is_complete)
        if self.is_member:
            self._ask_for_decisions(self._replica)
            self._catch_up()
            self._change_members(now_us)
            return
        self._found(now_us)
        for broker in dict.fromkeys((*self.declaration.replicas, *self._met)):
            if broker != self.broker and not self.is_member:
                self._port.send(broker, LogAsk(self.declaration.key, self.identity, self.entries.end))

    def has_leader(self, now_us: int) -> bool:
        """Whether it follows a leader, or leads with a majority."""
        replica = self._replica
        if replica is None:
            return False
        return replica.has_lease(now_us) if replica.is_leading else replica.leader is not None

    def _ask_for_decisions(self, replica: Replica) -> None:
        """Request decisions from the leader if this replica has made no progress since the last tick."""
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
            self._port.send(broker, LogFound(self.declaration.key, self._founders))
            return
        if self.members and self.entries.end - message.end <= LAG_MAX:
            self._ready[broker] = message.identity
        elif self.members:
            self._ready.pop(broker, None)
        told = LogTold(self.declaration.key, self.identity, self.members, self.entries.first, self.entries.end)
        self._port.send(broker, told)

    def hear_told(self, broker: str, message: LogTold, now_us: int) -> None:
        if self.is_member or broker_of(message.identity) != broker:
            return
        if not message.members:
            self._answers[broker] = message.identity
            self._found(now_us)
            return
        self._answers.clear()  # the log exists, so no replica founds it
        self._met = tuple(map(broker_of, message.members))
        if message.end > self.entries.end:
            self._fetch_from(broker)

    def hear_found(self, broker: str, message: LogFound, now_us: int) -> None:
        if self._replica is None or self.members or self.identity not in message.members:
            return
        self._accept_founding(message.members, now_us)

    def _found(self, now_us: int) -> None:
        """Found the log, if this is the first declared broker and all others have answered that they know no log."""
        replicas = self.declaration.replicas
        if self.broker != replicas[0] or self.members or self._replica is None:
            return
        others = [self._answers[broker] for broker in replicas[1:] if broker in self._answers]
        if len(others) == len(replicas) - 1:
            self._accept_founding((self.identity, *others), now_us)
            for identity in others:
                self._port.send(broker_of(identity), LogFound(self.declaration.key, self._founders))
            out: list[Effect] = []
            self._take(self._replica.stand(now_us, out), out, now_us)  # no replica leads yet

    def _accept_founding(self, members: tuple[str, ...], now_us: int) -> None:
        """Accept the first members. Promises that were made before stay valid."""
        assert self._replica is not None, "its disk was read"
        self._founders = members
        self._write(identity_record(ReplicaIdentity(self.identity, members)))
        self._start(self._replica.ledger.records()[1:], now_us)  # without the snapshot, which knows no members

    def _change_members(self, now_us: int) -> None:
        """Propose, as leader, the next change of the members."""
        replica = self._replica
        if replica is None or not replica.is_leading or not replica.has_lease(now_us):
            return
        members = replica.ledger.members
        wanted = next_members(members, self.declaration.replicas, self._ready)
        if wanted != list(members):
            out: list[Effect] = []
            _, news = replica.configure(wanted, now_us, out)
            self._take(news, out, now_us)

    def _catch_up(self) -> None:
        """Fetch decided entries that are missing here, from each member in turn."""
        if self.entries.end < self.state.next:
            others = [broker_of(member) for member in self.members if member != self.identity]
            if others:
                self._fetch_from(others[self._turn % len(others)])

    def _fetch_from(self, broker: str) -> None:
        """Fetch missing entries, unless a copy of earlier ones is being made."""
        if not self._copy.is_running:
            self.entries.fetch(broker)

    def hear_fetch(self, broker: str, message: LogFetch) -> None:
        if self._replica is not None:
            self.entries.hear_fetch(broker, message)

    def fetched(self, event: StoreFetched) -> bool:
        """Handle an answer of the disk. Returns False for a token of another log."""
        is_own = any(part.fetched(event) for part in (self.entries, self.reader, self._compactor, self._copies))
        self.damage = self.damage or (event.reason if is_own else "")
        return is_own

    def hear_entries(self, broker: str, message: LogEntries) -> None:
        if not self.entries.awaits(broker, message):
            return
        has_more = self.entries.hear_entries(message)
        if not has_more and self.declaration.compact and message.first > self.entries.end:
            self._copy.begin(broker)  # it has compacted what is missing here
            return
        self._has_fetched(broker, has_more, message.end)

    def _has_fetched(self, broker: str, has_more: bool, end: int) -> None:
        if not has_more:
            self._turn += 1  # ask another member next
        elif not self.is_member and end > self.entries.end:
            self._fetch_from(broker)
        if self.is_member and has_more:
            self._catch_up()
            self._keep_snapshot()
            self._look_at_readers()

    # -- compacted entries ---------------------------------------------------------------------------------------------

    def hear_copy(self, broker: str, message: LogCopyAsk | LogCopied) -> None:
        if isinstance(message, LogCopyAsk):
            self._compactor.note_copy()
            self._copies.hear_ask(broker, message)
            return
        is_decided = not self.is_member or message.through <= self.state.next
        if self._replica is not None and is_decided and self._copy.hear(broker, message):
            self._has_fetched(broker, True, message.through + 1)

    # -- positions of readers ------------------------------------------------------------------------------------------

    def hear_settle(self, broker: str, message: LogSettle, now_us: int, time_us: int) -> None:
        """Store, delete or read a position for a client, if this replica leads. `time_us`: microseconds since 1970."""
        replica = self._replica
        if replica is None or not replica.has_lease(now_us):
            told = LogSettled(self.declaration.key, message.id, -1, 0, 0, self.leader, is_leading=False)
            self._port.send(broker, told)
            return

        def propose(command: bytes) -> bool:
            out: list[Effect] = []
            taken, news = replica.propose(command, now_us, out)
            self._take(news, out, now_us)
            return taken

        self._settling.hear(broker, message, time_us, propose)
