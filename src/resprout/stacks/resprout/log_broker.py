"""A broker of the default stack that hosts logs, those of its configuration and those that commands create.

It adds handlers for replicas and feeders to the tables of the broker. Feeders are clients inside the broker: the
messages that the stack sends them are taken out of its effects, and their own messages reach the stack as further
steps.
"""

import random
from collections.abc import Sequence

import msgspec

from resprout.core.contract import Close, Effect, Event, Hold, LinkDown, LinkUp, Release, Retire, Send
from resprout.edge.broker.ports import LogAccess
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import Consume, Consuming, Standing
from resprout.edge.messages import ReadEvents
from resprout.edge.position_messages import AskPosition, ChangeLog
from resprout.journal.interface import StoreFetched, StoreOpened
from resprout.logs.declaration import LOG_PREFIX, check_logs
from resprout.logs.messages import LOG_MESSAGES
from resprout.replicas.ledger import HeartbeatDue, PatienceOver
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.resprout.broker import ResproutBroker, Tick
from resprout.stacks.resprout.log_host import LogHost
from resprout.stacks.resprout.log_status import log_notices, logs_seen
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus


class _FeederStep(Event):
    """Step in which feeders handle the messages that the stack has sent them."""


class LogBroker(ResproutBroker):
    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        check_logs(seat.logs)
        super().__init__(seat, options, rng)
        parts = self.parts
        self.log_access = access = LogAccess()
        durables = parts.client_book.durables
        self.logs = host = LogHost(
            parts.life,
            parts.peers,
            parts.durables,
            durables,
            rng,
            access,
            parts.remembered.write,
            lambda name: name in parts.sessions.all,
        )
        clients, _, brokers, _ = self.desks
        brokers.handlers.update(dict.fromkeys(LOG_MESSAGES, host.hear_peer))
        brokers.handlers.update(dict.fromkeys(REPLICA_MESSAGES, host.hear_peer_replica))
        self._consume_any = clients.handlers[Consume]
        clients.handlers[Consume] = self._consume
        clients.handlers[ReadEvents] = host.reads.ask
        clients.handlers[AskPosition] = host.positions.ask
        clients.handlers[ChangeLog] = host.changes.ask
        self.add_handlers(
            events={
                StoreOpened: host.opened,
                StoreFetched: host.fetched,
                _FeederStep: lambda event: host.hear_stack(),
            },
            timers={HeartbeatDue: host.fired, PatienceOver: host.fired},
            at_end=((host.to_itself, host.hear_itself),),
        )

    def _consume(self, session: ClientSession, message: Consume) -> None:
        """Refuse the subscription of a log to every client but its feeder."""
        name = message.subscription
        is_feed = name.startswith(LOG_PREFIX) and any(name == log.subscription for log in self.logs.table.logs)
        if is_feed and not session.is_internal:
            reason = f"{name!r} feeds a log: read the log, or subscribe under another name"
            self.life.out.append(Send(session.name, Consuming(Standing.REFUSED, reason)))
        else:
            self._consume_any(session, message)

    def status(self) -> StackStatus:
        status = super().status()
        logs = logs_seen(self.logs, self.logs.table.parts, self.life.now_us)
        notices = tuple(log_notices(logs))
        return msgspec.structs.replace(status, logs=logs, notices=(*status.notices, *notices))

    def reads_log(self, journal: str) -> bool:
        """Whether a client reads a log by this name."""
        return self.logs.reads.reads(journal)

    def _link_down(self, event: LinkDown) -> None:
        super()._link_down(event)
        self.logs.reads.leave(event.peer)
        self.logs.positions.leave(event.peer)

    def _link_up(self, event: LinkUp) -> None:
        super()._link_up(event)
        if event.role != "client":
            self.logs.link_up(event.peer)

    def _tick(self, timer: Tick) -> None:
        super()._tick(timer)
        if self.life.attached and not self.life.retired:
            self.logs.tick()

    # -- feeders -------------------------------------------------------------------------------------------------------

    def start(self, now_us: int) -> Sequence[Effect]:
        return self._go_on(super().start(now_us), now_us)

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        return self._go_on(super().step(event, now_us), now_us)

    def _go_on(self, effects: Sequence[Effect], now_us: int) -> Sequence[Effect]:
        """Exchange messages between the stack and feeders until none are left."""
        host = self.logs
        if not (host.feeds or host.from_feeders):
            return effects
        out = self._without_feeders(effects)
        while not self.life.retired:
            host.acknowledge()
            if host.to_feeders:
                out += self._without_feeders(super().step(_FeederStep(), now_us))
            elif host.from_feeders:
                out += self._without_feeders(super().step(host.from_feeders.popleft(), now_us))
            else:
                break
        return out

    def _without_feeders(self, effects: Sequence[Effect]) -> list[Effect]:
        """Take out effects for feeders; keep all others in their order."""
        host, out = self.logs, list[Effect]()
        for effect in effects:
            if isinstance(effect, Send | Close | Hold | Release) and host.is_feeder(effect.peer):
                if isinstance(effect, Send):
                    host.to_feeders.append((effect.peer, effect.message))
                elif isinstance(effect, Close):
                    host.closed(effect.peer)
                continue
            if isinstance(effect, Retire):
                host.from_feeders.clear()
                host.to_feeders.clear()
            out.append(effect)
        return out
