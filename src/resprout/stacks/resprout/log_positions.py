"""Stored positions of logs: a client asks any broker, which asks the leader of the log.

A broker repeats a request until it is answered, at one replica after the other while it knows no leader. Each change
acts once, however often it is requested (`logs.positions`). A client may store positions in a log if it may read
everything that the log keeps. What it may do with a position depends on the identity that the position belongs to.
"""

from collections import Counter
from typing import Final

import msgspec

from resprout.core.contract import Send
from resprout.core.errors import NameRefusedError
from resprout.core.limits import REASON_BYTES, check_name
from resprout.edge.broker.ports import LogAccess
from resprout.edge.broker.session import ClientSession
from resprout.edge.position_messages import AskPosition, PositionTold
from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import LogPort, LogSettle, LogSettled
from resprout.logs.positions import FORGET
from resprout.logs.replica import LogReplica
from resprout.logs.table import LogTable
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.log_reads import name_partition

RETRY_TICKS: Final = 4
"""Heartbeats without an answer after which another replica is asked."""
TICKS_MAX: Final = 40
"""Heartbeats after which the client is told that no replica leads the log."""
ASKED_MAX: Final = 256
"""Most pending requests of one identity, or of one client without an identity."""


class _Asked:
    def __init__(self, session: ClientSession, message: AskPosition, log: LogDeclaration) -> None:
        self.client = session.name
        self.party = session.identity or session.name
        self.identity = session.identity
        self.grant = session.grant(message.name) if session.grant is not None else None
        self.message = message
        self.log = log
        self.turn = 0
        self.silent_ticks = 0
        self.ticks = 0


class LogPositions:
    def __init__(
        self, life: BrokerLife, table: LogTable, replicas: dict[str, LogReplica], port: LogPort, access: LogAccess
    ) -> None:
        self._life = life
        self._replicas = replicas
        self._port = port
        self._access = access
        self._table = table
        self._asked: dict[int, _Asked] = {}
        """Pending requests, by the number under which they are sent to replicas."""
        self._of_party: Counter[str] = Counter()
        """Number of pending requests, by identity or client."""
        self._ids = 0

    def ask(self, session: ClientSession, message: AskPosition) -> None:
        client, log, party = session.name, self._table.find_part(message.log), session.identity or session.name
        if fault := _fault_of_name(message.name):
            self._refuse(client, message, fault)
        elif log is None:
            self._refuse(client, message, self._table.not_found(message.log))
        elif not self._access.may_read(client, log.filter):
            self._refuse(client, message, f"{client} may not subscribe to {log.filter}")
        elif log.partitions > 1:
            self._refuse(client, message, name_partition(log), partitions=log.partitions)
        elif self._of_party[party] >= ASKED_MAX:
            self._refuse(client, message, f"{ASKED_MAX} positions wait to be stored")
        else:
            self._ids += 1
            self._of_party[party] += 1
            self._asked[self._ids] = asked = _Asked(session, message, log)
            replica = self._replicas.get(log.key)
            self._send(self._ids, asked, replica.leader if replica is not None else "")

    def leave(self, client: str) -> None:
        """Drop the requests of a client whose session is over."""
        for id in [id for id, asked in self._asked.items() if asked.client == client]:
            self._forget(id)

    def _forget(self, id: int) -> None:
        asked = self._asked.pop(id)
        self._of_party[asked.party] -= 1
        if not self._of_party[asked.party]:
            del self._of_party[asked.party]

    def _refuse(
        self, client: str, message: AskPosition, reason: str, retryable: bool = False, partitions: int = 0
    ) -> None:
        reason = reason.encode()[:REASON_BYTES].decode(errors="ignore")
        self._life.out.append(Send(client, PositionTold(message.id, -1, 0, 0, reason, retryable, partitions)))

    def _send(self, id: int, asked: _Asked, leader: str = "") -> None:
        """Send a request to the leader, or else to the next replica in turn. A replica that is known as dead may have
        returned elsewhere, so it is asked last."""
        if leader and not self._life.view.is_dead(leader):
            broker = leader
        else:
            replicas = sorted(asked.log.replicas, key=self._life.view.is_dead)
            broker = replicas[asked.turn % len(replicas)]
            asked.turn += 1
        asked.silent_ticks = 0
        message, grant = asked.message, asked.grant
        ask = LogSettle(asked.log.key, id, message.name, message.offset, message.version, message.forced, message.owner)
        if grant is not None:
            shares = grant.manages if message.offset == FORGET else grant.lists
            ask = msgspec.structs.replace(
                ask, identity=asked.identity, shares=shares, creates=grant.creates, adopts=grant.adopts
            )
        self._port.send(broker, ask)

    def tick(self) -> None:
        """Repeat requests without an answer, and refuse those that have waited too long."""
        for id, asked in list(self._asked.items()):
            asked.ticks += 1
            asked.silent_ticks += 1
            if asked.ticks > TICKS_MAX:
                self._forget(id)
                self._refuse(asked.client, asked.message, f"no replica leads the log {asked.log.name} now", True)
            elif asked.silent_ticks >= RETRY_TICKS:
                self._send(id, asked)

    def hear(self, broker: str, message: LogSettled) -> None:
        asked = self._asked.get(message.id)
        if asked is None or asked.log.key != message.log or broker not in asked.log.replicas:
            return
        if message.is_leading:
            self._forget(message.id)
            told = PositionTold(asked.message.id, message.offset, message.version, message.end, message.reason)
            self._life.out.append(Send(asked.client, told))
        elif message.leader and message.leader != broker:
            self._send(message.id, asked, message.leader)
        else:  # asked again at the next tick
            asked.silent_ticks = RETRY_TICKS


def _fault_of_name(name: str) -> str:
    try:
        check_name(name, "position")
    except NameRefusedError as error:
        return str(error)
    return ""
