"""A pub/sub system that keeps every promise by construction, and the traces it leaves.

One log in the middle decides conflicts. A publication enters the log some time after it was made, those of a client in
order; a subscriber then takes, in any order it likes, publications whose predecessors it has: what they causally depend
on, and whatever precedes them in the log and shares a key with one of the two being a total. Only `eventual` ones are
taken at any time, and nothing depends on them. So subscribers differ as much as the guarantees allow, and nothing more.
Nothing here is shared with the judge.
"""

import functools
import random
from collections.abc import Iterator
from typing import Any

from resprout.filters.predicate import parse_predicate
from resprout.trace.schema import Row, texts, values

GUARANTEES = ("eventual", "fifo", "causal", "total")
TOPICS = ("bank/fr", "bank/pt", "news")
FILTERS = ("bank/fr", "bank/pt", "news", "bank/+", "bank/#", "#")


class Sent:
    """A publication on its way."""

    def __init__(self, row: Row, past: set[int], number: int) -> None:
        self.row = row
        self.number = number
        self.past = past
        """Numbers of everything ordered that it depends on."""
        self.logged = -1
        self.receipt = -1
        self.refused = False

    @property
    def id(self) -> tuple[Any, ...]:
        return (self.row.publisher, self.row.incarnation, self.row.stream, self.row.seq)

    @property
    def total(self) -> bool:
        return self.row.guarantee == "total"

    @property
    def ordered(self) -> bool:
        return self.row.guarantee != "eventual"

    @property
    def topics(self) -> list[str]:
        return [self.row.topic or "", *(k.split("#")[0] for k in self.row.keys or () if "#" in k)]

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """A total without keys is in order with others of its topic."""
        named = {
            (k.split("#")[0], k.split("#")[1]) if "#" in k else (self.row.topic or "", k) for k in self.row.keys or ()
        }
        return named or ({(self.row.topic or "", "")} if self.total else named)


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.incarnation = 0
        self.up = True
        self.frozen = False
        self.numbers = {"eventual": 0, "ordered": 0}
        self.open: dict[tuple[str, str | None], str] = {}
        """Subscriptions: asked, confirmed or ending."""
        self.wanted: list[Sent] = []
        """What it will be given."""
        self.had: list[Sent] = []
        self.knows: set[int] = set()
        self.queue: list[Sent] = []
        """Its publications that are not in the log yet."""
        self.position = 0


class System:
    def __init__(self, seed: int, clients: int = 4, claims: bool = True, faults: bool = True) -> None:
        """`claims`: whether it tells its order of totals. `faults`: crashes, freezes and subscriptions that end."""
        self.rng = random.Random(seed)
        self.clients = [Client(f"c{n}") for n in range(clients)]
        self.rows: list[Row] = []
        self.sent: list[Sent] = []
        self.log: list[Sent] = []
        self.now = 0
        self.claims = claims
        self.faults = faults

    # -- the run -------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> list[Row]:
        for client in self.clients:
            for _ in range(self.rng.randrange(1, 3)):
                self.subscribe(client)
                self.confirm(client)
        for _ in range(steps):
            self.step()
        self.settle()
        return self.rows

    def step(self) -> None:
        client = self.rng.choice(self.clients)
        act = self.rng.random()
        if act < 0.25:
            self.publish(client)
        elif act < 0.45:
            self.enter_log(client)
        elif act < 0.80:
            self.deliver(client)
        elif act < 0.90 and self.sent:
            self.give_receipt(self.rng.choice(self.sent[-30:]))
        elif act < 0.94:
            self.confirm(client)
        elif act < 0.96:
            self.subscribe(client)
        elif act < 0.98 and self.faults:
            self.unsubscribe(client)
        elif act < 0.99 and self.faults:
            self.fault(client)

    def settle(self) -> None:
        """Let everything that is under way arrive, then say so."""
        for client in self.clients:
            if client.frozen:
                client.frozen = False
                self.record(client.name, "unfreeze")
        for client in self.clients:
            while client.queue:
                self.enter_log(client)
        while any(self.deliver(client) for client in self.clients):
            pass
        for client in self.clients:
            for _ in range(len(client.open)):
                self.confirm(client)
        for sent in self.sent:
            for _ in range(3):
                self.give_receipt(sent)
        self.record("world", "quiescent")

    def record(self, node: str, kind: str, **columns: Any) -> Row:
        self.now += self.rng.choice((0, 1, 1, 5))
        row = Row(time_us=self.now, node=node, kind=kind, **columns)
        self.rows.append(row)
        return row

    # -- what clients do -----------------------------------------------------------------------------------------------

    def publish(self, client: Client, row: Row | None = None) -> None:
        if not client.up or client.frozen:
            return
        row = row or self.draw_publication()
        stream = "eventual" if row.guarantee == "eventual" else "ordered"
        client.numbers[stream] += 1
        made = self.record(
            client.name, "publish", publisher=client.name, incarnation=client.incarnation, stream=stream,
            seq=client.numbers[stream], topic=row.topic, keys=row.keys, guarantee=row.guarantee,
            attributes=row.attributes, payload_bytes=32,
        )  # fmt: skip
        sent = Sent(made, set(client.knows), len(self.sent))
        self.sent.append(sent)
        if sent.ordered:
            client.knows.add(sent.number)
        for subscriber in self.clients:
            if self.asks(subscriber, sent, "confirmed") or (
                self.asks(subscriber, sent, "asked", "ending") and self.rng.random() < 0.5
            ):
                subscriber.wanted.append(sent)
        client.queue.append(sent)

    def draw_publication(self) -> Row:
        rng = self.rng
        topic = rng.choice(TOPICS)
        guarantee = rng.choice(GUARANTEES)
        keys = {rng.choice(("a", "b", "bank/pt#a")) for _ in range(rng.choice((0, 1, 1, 2)))}
        attributes = texts({"amount": rng.randrange(100)}) if rng.random() < 0.5 else None
        return Row(
            time_us=0, node="", kind="", topic=topic, guarantee=guarantee, keys=tuple(sorted(keys)),
            attributes=attributes,
        )  # fmt: skip

    def deliver(self, client: Client) -> bool:
        if client.frozen:
            return False
        ready = [sent for sent in client.wanted if self.ready(client, sent)]
        if not ready:
            return False
        sent = self.rng.choice(ready)
        client.wanted.remove(sent)
        client.had.append(sent)
        if sent.ordered:
            client.knows |= sent.past | {sent.number}
        row = sent.row
        made = self.record(
            client.name, "deliver", publisher=row.publisher, incarnation=row.incarnation, stream=row.stream,
            seq=row.seq, topic=row.topic, keys=row.keys, guarantee=row.guarantee, position=client.position,
            tseq=sent.logged if sent.total and self.claims else None, hops=1, metadata_bytes=4, payload_bytes=32,
        )  # fmt: skip
        client.position += 1
        self.delivered(client, sent, made)
        return True

    def delivered(self, client: Client, sent: Sent, row: Row) -> None:
        """What the client's code does with it: nothing here."""

    def ready(self, client: Client, sent: Sent) -> bool:
        return sent.logged >= 0 and not any(
            other is not sent and self.precedes(other, sent) for other in client.wanted if not other.refused
        )

    @staticmethod
    def precedes(one: Sent, other: Sent) -> bool:
        """Whether `one` must come before `other` where both come."""
        if not one.ordered or not other.ordered:
            return False
        if (one.total or other.total) and one.pairs & other.pairs and 0 <= one.logged < other.logged:
            return True
        if other.row.guarantee in ("causal", "total") and one.number in other.past:
            return True
        return one.row.publisher == other.row.publisher and one.number < other.number

    # -- what the network does -----------------------------------------------------------------------------------------

    def enter_log(self, client: Client) -> None:
        if not client.queue:
            return
        sent = client.queue.pop(0)
        if self.rng.random() < 0.03:
            sent.refused = True
            self.drop(sent)
            row = sent.row
            self.record(
                client.name, "refused", publisher=row.publisher, incarnation=row.incarnation, stream=row.stream,
                seq=row.seq, detail="too much",
            )  # fmt: skip
            return
        sent.logged = len(self.log)
        self.log.append(sent)

    def drop(self, sent: Sent) -> None:
        for client in self.clients:
            if sent in client.wanted:
                client.wanted.remove(sent)

    def give_receipt(self, sent: Sent) -> None:
        publisher = next(client for client in self.clients if client.name == sent.row.publisher)
        if sent.logged < 0 or sent.receipt == 2 or not publisher.up or publisher.incarnation != sent.row.incarnation:
            return
        if sent.receipt == 1 and any(sent in client.wanted for client in self.clients):
            return
        sent.receipt += 1
        row = sent.row
        self.record(
            publisher.name, "receipt", publisher=row.publisher, incarnation=row.incarnation, stream=row.stream,
            seq=row.seq, receipt=("accepted", "safe", "delivered")[sent.receipt],
        )  # fmt: skip

    def fault(self, client: Client) -> None:
        if not client.up:
            client.up = True
            client.incarnation += 1
            client.numbers = {"eventual": 0, "ordered": 0}
            client.position = 0
            self.record(client.name, "recover")
        elif client.frozen:
            client.frozen = False
            self.record(client.name, "unfreeze")
        elif self.rng.random() < 0.5:
            client.frozen = True
            self.record(client.name, "freeze")
        else:
            self.crash(client)

    def crash(self, client: Client) -> None:
        """Its last publications may be lost with it; what it knew is, but for what it published."""
        self.record(client.name, "crash")
        client.up = False
        client.open.clear()
        client.wanted.clear()
        client.had.clear()
        for sent in client.queue[self.rng.randrange(len(client.queue) + 1) :]:
            client.queue.remove(sent)
            self.drop(sent)
        own = [sent for sent in self.sent if sent.row.publisher == client.name and sent.ordered]
        client.knows = own[-1].past | {own[-1].number} if own else set()

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def asks(self, client: Client, sent: Sent, *states: str) -> bool:
        attributes = values(sent.row.attributes)
        return any(
            state in states and parse_predicate(filter_, where).matches(topic, attributes)
            for (filter_, where), state in client.open.items()
            for topic in sent.topics
        )

    def subscribe(self, client: Client, filter_: str | None = None) -> None:
        where = None if filter_ or self.rng.random() < 0.7 else "amount > 50"
        wanted = (filter_ or self.rng.choice(FILTERS), where)
        if client.up and not client.frozen and wanted not in client.open:
            client.open[wanted] = "asked"
            self.record(client.name, "subscribe", filter=wanted[0], where=wanted[1])

    def unsubscribe(self, client: Client) -> None:
        confirmed = [key for key, state in client.open.items() if state == "confirmed"]
        if confirmed and not client.frozen:
            key = self.rng.choice(confirmed)
            client.open[key] = "ending"
            self.record(client.name, "unsubscribe", filter=key[0], where=key[1])

    def confirm(self, client: Client) -> None:
        """The next step of a subscription that waits for one."""
        waiting = [key for key, state in client.open.items() if state != "confirmed"]
        if not waiting or client.frozen:
            return
        key = self.rng.choice(waiting)
        if client.open[key] == "asked":
            client.open[key] = "confirmed"
            self.record(client.name, "subscribed", filter=key[0], where=key[1])
            return
        del client.open[key]
        self.record(client.name, "unsubscribed", filter=key[0], where=key[1])
        client.wanted = [s for s in client.wanted if self.asks(client, s, "asked", "confirmed", "ending")]


def good_traces(first: int, count: int, steps: int = 220) -> Iterator[tuple[int, list[Row]]]:
    for seed in range(first, first + count):
        yield seed, good_trace(seed, steps)


@functools.cache
def good_trace(seed: int, steps: int) -> list[Row]:
    return System(seed, clients=3 + seed % 3, claims=seed % 2 == 0, faults=seed % 4 < 2).run(steps)
