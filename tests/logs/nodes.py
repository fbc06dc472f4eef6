"""Brokers of a drawn schedule, their stores, and homes of the feed."""

from resprout.core.bundle import Bundle
from resprout.core.contract import Effect, ProtocolMessage
from resprout.logs.feeder import LogFeeder
from resprout.logs.replica import LogReplica


class Store:
    def __init__(self) -> None:
        self.base = 0
        self.floor = 0
        self.records: list[bytes] = []
        self.synced = 0

    @property
    def end(self) -> int:
        return self.base + len(self.records)


class Node:
    """One broker, and its life that runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = 0
        self.is_running = False
        self.stores: dict[str, Store] = {}
        self.replica: LogReplica | None = None
        self.writes: list[Effect] = []
        self.out: list[tuple[str, ProtocolMessage] | Effect] = []
        self.tokens = 0

    def write(self, effect: Effect) -> None:
        self.writes.append(effect)

    def send(self, broker: str, message: ProtocolMessage) -> None:
        self.out.append((broker, message))

    def do(self, effect: Effect) -> None:
        self.out.append(effect)

    def token(self) -> int:
        self.tokens += 1
        return self.tokens


class Feed:
    """A home of the durable subscription."""

    def __init__(self, home: str, life: int, order: list[Bundle], feeder: LogFeeder) -> None:
        self.home = home
        self.life = life
        self.order = order
        self.feeder = feeder
        self.handed = 0
