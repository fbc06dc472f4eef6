"""Logs at one broker of the default stack: its replicas, and the feeders of subscriptions whose home it is.

A replica exchanges messages with others through the sessions between brokers. A feeder is a client inside the broker
that consumes the durable subscription of its log; `LogBroker` passes it the messages of the stack. The leader of a log
creates the subscription at its own broker. From then on the feeder runs at the home of the subscription.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads, unpack_attributes, unpack_payloads
from resprout.core.contract import Effect, Event, LinkDown, LinkUp, ProtocolMessage, Received, Writable
from resprout.core.errors import WireError
from resprout.core.partitions import partition_of
from resprout.edge.broker.ports import LogAccess
from resprout.edge.durable_messages import (
    SPANS_MAX,
    Acknowledge,
    Consume,
    Consuming,
    Handed,
    Span,
    Standing,
    Terms,
)
from resprout.edge.messages import GoTo
from resprout.journal.interface import StoreFetched, StoreOpened
from resprout.logs.declaration import LOG_PREFIX, LogDeclaration
from resprout.logs.feeder import LogFeeder
from resprout.logs.messages import (
    LogAsk,
    LogCopied,
    LogCopyAsk,
    LogEntries,
    LogFed,
    LogFeed,
    LogFetch,
    LogFound,
    LogLed,
    LogPage,
    LogRead,
    LogsDeclared,
    LogSettle,
    LogSettled,
    LogTold,
    broker_of,
    speaker_of,
)
from resprout.logs.replica import LogReplica
from resprout.logs.table import LogTable
from resprout.overlay.configurations import decode
from resprout.replicas.ledger import HeartbeatDue, PatienceOver
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.peers import Peer, Peers
from resprout.stacks.resprout.durable_book import DurableBook
from resprout.stacks.resprout.durables import Durables
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.log_changes import LogChanges
from resprout.stacks.resprout.log_checks import check_fed, check_log_message, check_replica_message, in_time
from resprout.stacks.resprout.log_positions import LogPositions
from resprout.stacks.resprout.log_reads import LogReads
from resprout.wire.bundles import check_columns

WINDOW: Final = 4_096
"""Most messages that a feeder may hold which are not in the log yet."""
ROOM_BYTES: Final = 1 << 24
"""Most bytes of such messages."""
INNER: Final = ":log."
"""Part of the names of feeders as clients. No other client can have such a name."""


class _Consumption:
    """A feeder as a consumer of the durable subscription."""

    def __init__(self, log: LogDeclaration, client: str, begins: bool) -> None:
        self.log = log
        self.client = client
        self.begins = begins
        """Whether it asked for a subscription that did not exist."""
        self.feeders: dict[str, LogFeeder] = {}
        """Feeders by key of their partition, in order; none until the subscription is confirmed."""
        self.done: list[Span] = []
        """Messages that are in the log and not acknowledged to the subscription yet."""

    def follow(self, log: LogDeclaration) -> None:
        """Continue with another declaration of the same log."""
        self.log = log
        for part in log.parts:
            if part.key in self.feeders:
                self.feeders[part.key].declaration = part

    def feeder_for(self, bundle: Bundle) -> LogFeeder | None:
        """Return the feeder of the partition that keeps a bundle."""
        feeders = list(self.feeders.values())
        return feeders[partition_of(bundle.topic, bundle.keys, len(feeders))] if feeders else None


class LogHost:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        durables: Durables,
        book: DurableBook,
        rng: Random,
        access: LogAccess,
        remember: Callable[[], None],
        is_client: Callable[[str], bool],
    ) -> None:
        """`remember` writes what the next life of this broker needs to know. `is_client` tells whether a client of this
        name is served here."""
        self._is_client = is_client
        self._remember = remember
        self._life = life
        self._peers = peers
        self._durables = durables
        self._book = book
        self._rng = rng
        memory = decode(life.seat.memory) if life.seat.memory else None
        self.table: Final = LogTable(life.seat.logs, memory.logs if memory is not None else b"")
        life.declared_logs = self.table.memory
        self.replicas: Final[dict[str, LogReplica]] = {}
        """Replicas at this broker, by key of their partition."""
        self._is_begun = False
        self._make_replicas()
        self.feeds: dict[str, _Consumption] = {}
        """Running feeders, by their name as clients."""
        self._sessions = 0
        """Number of sessions of feeders so far."""
        self._gaps: dict[str, str] = {}
        """Reason why messages may be missing, for the next feeder, by log."""
        self.from_feeders: deque[Event] = deque()
        """Messages of feeders for the stack, as its clients."""
        self.to_feeders: deque[tuple[str, Any]] = deque()
        """Messages of the stack for feeders."""
        self.to_itself: deque[ProtocolMessage] = deque()
        """Messages of this broker for itself."""
        self._tokens = 0
        """Number of tokens issued so far."""
        self.reads: Final = LogReads(life, self.table, self.replicas, self, access)
        self.positions: Final = LogPositions(life, self.table, self.replicas, self, access)
        self.changes: Final = LogChanges(life, self.table, self, self.declared)

    # -- the port of replicas and feeders ------------------------------------------------------------------------------

    def write(self, effect: Effect) -> None:
        self._life.records.append(effect)

    def send(self, broker: str, message: ProtocolMessage) -> None:
        if broker == self._life.seat.name:
            if not isinstance(message, REPLICA_MESSAGES):  # those are for an identity that this replica had before
                self.to_itself.append(message)
        elif not self._is_broker(broker):
            return
        elif not self._life.view.is_dead_speaker(broker):
            self._peers.post(broker, message)
        elif isinstance(message, LogFeed):
            self._peers.open(broker)  # it may have returned elsewhere, and has no reason to connect

    def _is_broker(self, name: str) -> bool:
        """Whether it is declared as a replica, or known as a broker. A lying replica may name a client as leader or
        member, and a lying broker may declare a log at one: the session of a client here is no session of a broker."""
        if self._is_client(name):
            return False
        is_declared = any(name in log.replicas for log in self.table.logs)
        return is_declared or self._peers.get(name) is not None or name in self._life.view.places

    def do(self, effect: Effect) -> None:
        self._life.out.append(effect)

    def token(self) -> int:
        self._tokens += 1
        return self._tokens

    # -- declarations --------------------------------------------------------------------------------------------------

    def _make_replicas(self) -> None:
        """Begin the replicas that are declared here and do not run yet."""
        seat = self._life.seat
        for log in self.table.parts:
            if seat.name in log.replicas and log.key not in self.replicas:
                rng = Random(self._rng.random())
                replica = self.replicas[log.key] = LogReplica(
                    log, seat.name, seat.incarnation, rng, self, is_traced=seat.is_traced
                )
                if self._is_begun:
                    replica.begin()

    def declared(self) -> None:
        """Follow a change of the table: begin, change and end replicas and feeders. A replica that is not declared here
        any more votes until it knows that it is no member, because the log may need it until then."""
        life = self._life
        life.declared_logs = self.table.memory
        self._remember()
        logs = {log.key: log for log in self.table.logs}
        parts = {part.key: part for part in self.table.parts}
        for key, replica in list(self.replicas.items()):
            if key in parts:
                replica.declaration = parts[key]
            else:
                replica.discard()
                del self.replicas[key]
        for feed in list(self.feeds.values()):
            log = logs.get(feed.log.key)
            if log is None:
                self._leave(feed)
            else:
                feed.follow(log)
        self._make_replicas()

    def _drop_former(self) -> None:
        """End replicas that a command has moved away, once they know that they are not members any more."""
        for key, replica in list(self.replicas.items()):
            is_former = self._life.seat.name not in replica.declaration.replicas
            if is_former and replica.members and not replica.is_member:
                replica.discard()
                del self.replicas[key]

    def _end_subscriptions(self) -> None:
        """End the subscriptions of deleted logs that live here."""
        busy = {feed.log.subscription for feed in self.feeds.values()}
        for name in self._durables.consumers.held:
            if name.startswith(LOG_PREFIX) and name not in busy and self.table.is_over(name):
                self._sessions += 1
                client = f"{self._life.seat.name}{INNER}over.{self._sessions}"
                log = LogDeclaration(name.removeprefix(LOG_PREFIX), "#", ())
                self.feeds[client] = _Consumption(log, client, begins=False)
                self.from_feeders.append(
                    LinkUp(client, "client", self._life.seat.incarnation, ROOM_BYTES, internal=True)
                )
                consume = Consume(name, Terms("#", None, group=False), WINDOW, ends=True)
                self.from_feeders.append(Received(client, consume))

    # -- time and sessions ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Run the periodic work of replicas, feeders and reads, at each heartbeat once this broker is in the tree."""
        now_us = self._life.now_us
        if not self._is_begun:
            self._is_begun = True
            for replica in self.replicas.values():
                replica.begin()
        else:
            for replica in self.replicas.values():
                replica.tick(now_us)
        self._drop_former()
        for log in self.table.logs:
            self._start_feeder(log)
        self._end_subscriptions()
        for feed in self.feeds.values():
            for feeder in feed.feeders.values():
                feeder.tick()
        self.reads.tick()
        self.positions.tick()
        self.changes.tick()

    def link_up(self, broker: str) -> None:
        for replica in self.replicas.values():
            replica.link_up(broker)
        for feed in self.feeds.values():
            for feeder in feed.feeders.values():
                feeder.link_up(broker)

    def fired(self, timer: HeartbeatDue | PatienceOver) -> None:
        replica = self.replicas.get(speaker_of(timer.group)[0])
        if replica is not None:
            replica.fired(timer, self._life.now_us)

    # -- stores --------------------------------------------------------------------------------------------------------

    def opened(self, event: StoreOpened) -> None:
        replica = self.replicas.get(event.store.rpartition(".")[0])
        if replica is not None:
            replica.opened(event, self._life.now_us)
            if event.warning:
                self._life.note("log", f"replica of {replica.declaration.name}: {event.warning}")
            if replica.trouble:
                name = replica.declaration.name
                self._life.note("log", f"{self._life.seat.name} keeps no replica of {name}: {replica.trouble}")

    def fetched(self, event: StoreFetched) -> None:
        for replica in self.replicas.values():
            if replica.fetched(event):
                return

    # -- what brokers say ----------------------------------------------------------------------------------------------

    def hear_replica(self, broker: str, message: Any) -> None:
        log, speaker = speaker_of(message.group)
        replica = self.replicas.get(log)
        if replica is not None and broker_of(speaker) == broker and replica.knows(broker):
            replica.hear_replica(speaker, message, self._life.now_us)

    def hear(self, broker: str, message: Any) -> None:
        """Handle a message about a log from any broker."""
        now_us = self._life.now_us
        if isinstance(message, LogFed | LogLed):
            self._answered(broker, message)
            return
        if isinstance(message, LogPage):
            self.reads.hear(broker, message)
            return
        if isinstance(message, LogSettled):
            self.positions.hear(broker, message)
            return
        if isinstance(message, LogsDeclared):
            self.changes.hear(broker, message)
            return
        replica = self.replicas.get(message.log)
        if replica is None:
            return
        if isinstance(message, LogFeed):
            replica.hear_feed(broker, in_time(message, self._wall_us), now_us)
        elif isinstance(message, LogRead):
            replica.remote_reads.hear(broker, message)
        elif isinstance(message, LogSettle):
            replica.hear_settle(broker, message, now_us, self._wall_us)
        elif not replica.knows(broker):
            return  # this broker keeps no replica of the log
        elif isinstance(message, LogFetch):
            replica.hear_fetch(broker, message)
        elif isinstance(message, LogAsk):
            replica.hear_ask(broker, message, now_us)
        elif isinstance(message, LogTold):
            replica.hear_told(broker, message, now_us)
        elif isinstance(message, LogFound):
            replica.hear_found(broker, message, now_us)
        elif isinstance(message, LogEntries):
            replica.hear_entries(broker, message)
        elif isinstance(message, LogCopyAsk | LogCopied):
            replica.hear_copy(broker, message)

    def hear_peer(self, peer: Peer, message: Any) -> None:
        if not peer.is_newcomer:  # the name of a newcomer is not settled
            check_log_message(peer.name, message)
            self.hear(peer.name, message)

    def hear_peer_replica(self, peer: Peer, message: Any) -> None:
        if not peer.is_newcomer:
            check_replica_message(peer.name, message)
            self.hear_replica(peer.name, message)

    def hear_itself(self) -> None:
        """Handle the messages that this broker sent to itself in this step."""
        while self.to_itself:
            self.hear(self._life.seat.name, self.to_itself.popleft())

    # -- feeds ---------------------------------------------------------------------------------------------------------

    def _start_feeder(self, log: LogDeclaration) -> None:
        """Start the feeders of a log if its subscription lives here. Create the subscription if this broker leads the
        first partition, all others have a leader, and no broker holds it."""
        if any(feed.log.key == log.key for feed in self.feeds.values()):
            return
        state = self._book.states.get(log.subscription)
        is_there = state is not None and not state.over
        is_due = not is_there and self._life.is_settled and self._begins(log)
        if log.subscription in self._durables.consumers.held or is_due:
            self._sessions += 1
            name = f"{self._life.seat.name}{INNER}{log.name}.{self._sessions}"
            self.feeds[name] = _Consumption(log, name, begins=not is_there)
            self.from_feeders.append(LinkUp(name, "client", self._life.seat.incarnation, ROOM_BYTES, internal=True))
            terms = Terms(log.filter, None, group=False)
            self.from_feeders.append(Received(name, Consume(log.subscription, terms, WINDOW)))

    def _begins(self, log: LogDeclaration) -> bool:
        """Whether this broker may begin to feed a log."""
        parts = [self.replicas.get(part.key) for part in log.parts]
        first = parts[0]
        return first is not None and first.is_leading and all(part is not None and part.leader for part in parts)

    def is_feeding(self, log: str) -> bool | None:
        """Whether the feeder of a partition has messages that are not in the log; None if no feeder runs here."""
        feeder = self.feeder_of(log)
        return feeder.waiting > 0 if feeder is not None else None

    def feeder_of(self, log: str) -> LogFeeder | None:
        """Return the feeder of a partition that runs here, or None."""
        return next((feed.feeders[log] for feed in self.feeds.values() if log in feed.feeders), None)

    def unfed(self, log: str) -> int | None:
        """Return the number of bundles at the feeder that are not in the log; None if no feeder runs here."""
        feeder = self.feeder_of(log)
        return feeder.waiting if feeder is not None else None

    def is_feeder(self, client: str) -> bool:
        return client in self.feeds

    def hear_stack(self) -> None:
        """Pass the messages of the stack to feeders."""
        while self.to_feeders:
            client, message = self.to_feeders.popleft()
            feed = self.feeds.get(client)
            if feed is None:
                continue
            if isinstance(message, Handed):
                self._handed(feed, message)
            elif isinstance(message, Consuming):
                self._consuming(feed, message)
            elif isinstance(message, GoTo):
                self._leave(feed)

    def closed(self, client: str) -> None:
        """Forget a feeder whose session the stack has ended."""
        self.feeds.pop(client, None)

    def _consuming(self, feed: _Consumption, message: Consuming) -> None:
        log = feed.log
        if message.standing is not Standing.CONSUMER:
            if message.standing is Standing.INCOMPLETE:
                self._gaps[log.key] = message.reason
            elif message.standing not in (Standing.FENCED, Standing.ENDED):
                self._life.note("log", f"{log.name} is not fed from here: {message.reason}")
            self._leave(feed)
        elif not feed.feeders:
            gap = self._gaps.pop(log.key, "")
            for part in log.parts:
                self._feed(feed, part, gap)

    def _feed(self, feed: _Consumption, part: LogDeclaration, gap: str) -> None:
        """Begin to feed one partition of a log. `gap`: the reason why messages may be missing, or an empty text."""
        seat, replica = self._life.seat, self.replicas.get(part.key)
        leader = (replica.leader if replica is not None else "") or part.replicas[0]
        name = f"{seat.name}.{seat.incarnation}.{self._sessions}"
        feeder = LogFeeder(part, name, leader, self, lambda bundle: self._done(feed, bundle))
        feed.feeders[part.key] = feeder
        if feed.begins:
            feeder.begin(self._wall_us)
        if gap:
            feeder.note_gap(gap, self._wall_us)
        self._life.note("log_fed", f"{part.name} is fed from here", attributes={"log": part.name})

    @property
    def _wall_us(self) -> int:
        return self._life.seat.epoch_us + self._life.now_us

    def _handed(self, feed: _Consumption, message: Handed) -> None:
        whole, offsets = message.bundle, message.offsets
        feeder = feed.feeder_for(whole)
        if feeder is None:
            return
        try:
            check_columns(whole, self._life.options.honest_payload)
        except WireError:  # brokers pass bundles on unread
            feeder.note_gap(f"a publication of {whole.publisher} cannot be read", self._wall_us)
            places = offsets if offsets is not None else range(whole.count)
            feed.done.extend(Span(*whole.origin, whole.first + place, whole.first + place) for place in places)
            return
        for bundle in consecutive_runs(whole, offsets):
            tseq = message.tseq + bundle.first - whole.first if message.tseq >= 0 else message.tseq
            feeder.hand(bundle, tseq, self._wall_us)

    def _done(self, feed: _Consumption, bundle: Bundle) -> None:
        feed.done.append(Span(*bundle.origin, bundle.first, bundle.last))

    def acknowledge(self) -> None:
        """Acknowledge messages that are in logs to their subscriptions."""
        for feed in self.feeds.values():
            while feed.done:
                spans, feed.done = feed.done[:SPANS_MAX], feed.done[SPANS_MAX:]
                self.from_feeders.append(Received(feed.client, Acknowledge(tuple(spans))))
                self.from_feeders.append(Writable(feed.client, ROOM_BYTES))

    def _answered(self, broker: str, message: LogFed | LogLed) -> None:
        for feed in self.feeds.values():
            feeder = feed.feeders.get(message.log)
            if feeder is not None:
                if broker != feeder.leader and broker not in feed.log.replicas:
                    continue  # a broker without a replica cannot know
                if isinstance(message, LogFed):
                    check_fed(broker, message, feeder)
                    feeder.hear_fed(broker, message)
                else:
                    feeder.hear_led(message.leader)

    def _leave(self, feed: _Consumption) -> None:
        del self.feeds[feed.client]
        self.from_feeders.append(LinkDown(feed.client, "it feeds the log no longer"))


def consecutive_runs(bundle: Bundle, offsets: Sequence[int] | None) -> list[Bundle]:
    """Return the messages of a bundle at these places, or all for None, as bundles with consecutive numbers."""
    if offsets is None:
        return [bundle]
    payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
    runs: list[Bundle] = []
    start = 0
    for place in range(1, len(offsets) + 1):
        if place == len(offsets) or offsets[place] != offsets[place - 1] + 1:
            runs.append(
                Bundle(
                    bundle.publisher, bundle.incarnation, bundle.first + offsets[start], place - start, bundle.stamp,
                    bundle.topic, bundle.keys, bundle.guarantee, pack_attributes(rows[start:place]),
                    pack_payloads(payloads[start:place]),
                )
            )  # fmt: skip
            start = place
    return runs
