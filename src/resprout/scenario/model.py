"""A scenario as values: everything a driver needs to run it, nothing about how it was written down.

Values are immutable and complete: units are resolved, defaults filled in, names checked by the code that made them
(`load` for files, `draw` for swarms). Times are microseconds of virtual time from the beginning of the run, rates bits
per second, sizes bytes. Nodes are brokers and clients, in one name space.

`BankOptions` and its siblings are the options that one kind of workload understands beyond the common ones of
`WorkloadSpec`. The loader takes names, types and defaults from these structs and the bounds from their annotations, so
an option that is not here is an error. In TOML they stand in `[[workload]]` next to the common keys.

`random_for` makes a generator from the scenario's seed and its purpose, so that a new client or workload does not
change the choices of the others. Python's `hash` differs between processes and is not used.
"""

import enum
import hashlib
import random
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from resprout.core.guarantee import Guarantee
from resprout.edge.durable_messages import WhenFull
from resprout.logs.declaration import LogDeclaration
from resprout.stacks.stack import RosterEntry

LINK_LATENCY_US: Final = 1_000
"""One way between a broker and its parent, unless the scenario says otherwise."""

CLIENT_LATENCY_US: Final = 100
"""One way between a client and its broker, unless the scenario says otherwise: the same machine room."""

PLAIN_WHEN_FULL: Final = {
    "disconnect": WhenFull.DISCONNECT,
    "block": WhenFull.BLOCK,
    "drop_oldest": WhenFull.DROP_OLDEST,
}
"""Policies of clients that do not read."""
DURABLE_WHEN_FULL: Final = {
    "block": WhenFull.BLOCK,
    "spill": WhenFull.SPILL,
    "drop_oldest": WhenFull.DROP_OLDEST,
}
"""Policies of durable subscriptions."""

TIME_LIMIT_US: Final = 120_000_000

OptionValue = str | int | float | bool
"""Of a stack's option. Which names and types a stack takes is its own affair."""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A chance between 0 and 1."""


class BankOptions(msgspec.Struct, frozen=True):
    """A replicated bank: each topic is a bank, each key an account, each client a replica and a teller."""

    initial: Annotated[int, msgspec.Meta(ge=0, le=10**12)] = 10_000
    """Balance of every account before anything happens, in cents."""
    amount_max: Annotated[int, msgspec.Meta(ge=1, le=10**12)] = 5_000
    """Deposits, withdrawals and transfers move 1 to this many cents; above `initial`, many withdrawals are refused."""
    interest_max: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500
    """Interest credits 1 to this many hundredths of a percent of the balance, rounded down."""


class RandomOptions(msgspec.Struct, frozen=True):
    """Publications without a meaning: every choice is drawn from the seed."""

    keys_max: Annotated[int, msgspec.Meta(ge=0, le=64)] = 2
    """Each publication names 0 to this many keys (a `total` one at least 1, unless the workload has no keys)."""
    foreign_keys: Share = 0.0
    """Chance that a key belongs to another topic of the workload (`other/topic#key`)."""
    attributes: bool = True
    """Whether publications carry `amount` (0 to 999), `kind` (a, b or c), `ratio` (0.0 to 1.0) and `urgent`."""
    payload_min: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] | None = None
    """Payloads are this many up to `payload` bytes; absent: all exactly `payload`."""
    burst: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Publications made at once, all on one topic with the same guarantee and keys; `operations` counts every one."""
    subscribed: bool = False
    """Each client publishes only to topics that it subscribes to itself; without `topics`, to all of those."""
    delays: Share = 0.0
    """Chance that a publication is delayed, by up to `delay_max`. It is `eventual` then, and has no keys."""
    delay_max_us: Annotated[int, msgspec.Meta(ge=1, le=3_600_000_000)] = 1_000_000
    expiries: Share = 0.0
    """Chance that a publication expires, up to `ttl_max` after it was made."""
    ttl_max_us: Annotated[int, msgspec.Meta(ge=1, le=3_600_000_000)] = 1_000_000
    priorities: bool = False
    """Whether publications have priorities, 0 to 9."""
    ids: Share = 0.0
    """Chance that a publication has a `message_id`, one of half as many as there are `operations`. So clients repeat
    their own publications and those of others."""
    churn: Share = 0.0
    """Chance, before each publication, that the client begins or ends one extra subscription."""
    churn_where: Share = 0.0
    """Chance that such an extra subscription has a content filter."""


class ChatterOptions(msgspec.Struct, frozen=True):
    """Conversations: a delivery provokes an answer on another topic, down to a depth that the message carries."""

    depth: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 4
    """Answers to answers: a message carries how many are left, and at 0 nobody answers."""
    answer: Share = 0.5
    """Chance that a client answers a delivery; a level has this times the subscribers as many messages as the last."""
    answers_max: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1000
    """No client answers more often than this in one run: the bound that holds whatever the chances are."""
    think_max_us: Annotated[int, msgspec.Meta(ge=0, le=3_600_000_000)] = 0
    """An answer is made at once, or after a pause of up to this long. In TOML: `think_max = "5ms"`."""


class ValueOptions(msgspec.Struct, frozen=True):
    """Last values: a `total` is retained on its topic, others are not. Below `$kv/` it is a write to a key."""

    reads: Share = 0.3
    """Chance that a client reads last values, before each publication."""
    conditions: Share = 0.5
    """Chance that a write to a key says at which revision it expects the key."""
    removals: Share = 0.15
    """Chance that a retained publication removes the value of its topic."""
    churn: Share = 0.0
    """Chance, before each publication, that the client begins or ends a subscription that begins with last values."""
    burst: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Publications made at once on one topic."""


WorkloadOptions = BankOptions | RandomOptions | ChatterOptions | ValueOptions

OPTIONS: dict[str, type[WorkloadOptions]] = {
    "bank": BankOptions,
    "random": RandomOptions,
    "chatter": ChatterOptions,
    "values": ValueOptions,
}
"""By kind of workload."""


class BrokerSpec(msgspec.Struct, frozen=True):
    """A broker that is there from the start."""

    name: str
    parent: str | None = None
    """A broker listed before or after it; None for the root."""
    latency_us: int = LINK_LATENCY_US
    """One way, of the link to the parent; without a parent of its way to everybody, so that two of them add up."""
    bandwidth_bps: int | None = None
    """Of the node, shared by its links; None is unlimited."""
    site: str | None = None
    """Brokers of one site replicate each other; then the *sites* form the tree. All brokers have one, or none."""
    contacts: tuple[str, ...] = ()
    """Of one without a parent: the brokers that it knows when it starts. It joins wherever these find it a place; one
    that knows nobody founds the network."""
    disk_latency_us: int = 0
    """From writing a record until it is durable; what a broker does after it happens then. Only in the simulator."""
    keep: tuple[str, ...] = ()
    """Filters of the events that it keeps in a journal. The simulator has no such journal: there the client inside the
    broker takes part, and what it is given is dropped."""


class SubscriptionSpec(msgspec.Struct, frozen=True):
    filter: str
    where: str | None = None
    durable: str | None = None
    """The name of a durable subscription, which outlives the client."""
    group: bool = False
    """It shares that with others."""
    when_full: str = "block"
    """What becomes of messages that wait for a durable subscription: one of `DURABLE_WHEN_FULL`."""
    max_pending: int = 0
    """Of one that drops the oldest: how many messages may wait."""
    retained: bool = False
    """It begins with the last values of its topics."""
    max_deliver: int = 0
    """Of a durable one: how often a message is handed out before it becomes a dead letter, on the topic `dead/NAME`."""
    ack_wait_us: int = 0
    """Of a durable one: within which time its consumers acknowledge a message."""
    poison: Share = 0.0
    """Chance that a message is one that no consumer can process: it is rejected, given up or never acknowledged."""
    flaky: Share = 0.0
    """Chance that a message is rejected when it is handed out for the first time."""
    follow_ups: Share = 0.0
    """Chance that a consumer publishes a follow-up with its acknowledgement, on the topic `after/NAME`."""

    @property
    def retries(self) -> bool:
        """Whether consumers may reject messages."""
        return self.max_deliver > 0 or self.ack_wait_us > 0


MQTT: Final = "mqtt"
PROTOCOLS: Final = ("resprout", MQTT)


class ClientSpec(msgspec.Struct, frozen=True):
    """A client and what it subscribes to as soon as it starts."""

    name: str
    broker: str
    """May be a broker that joins later; the client then tries until it is there."""
    latency_us: int = CLIENT_LATENCY_US
    subscriptions: tuple[SubscriptionSpec, ...] = ()
    called: str | None = None
    """The name under which it connects: that of another client, by mistake. Its lives are later than those of the
    other; in the trace it has its own name. Only in the simulator."""
    reading_us: int = 0
    """How long its program takes to read one delivery; the others wait meanwhile. Only in the simulator."""
    idle_us: tuple[int, int] | None = None
    """From when until when its program reads nothing at all."""
    when_full: str = "disconnect"
    """What its broker does when it does not read fast enough: one of `PLAIN_WHEN_FULL`. A durable subscription has its
    own."""
    repeats: bool = False
    """After a crash it connects with the same `life`, and publishes everything again. Only in the simulator."""
    protocol: str = "resprout"
    """What it speaks: one of `PROTOCOLS`. MQTT only in the simulator."""
    qos: int = 1
    """QoS of the publications and subscriptions of an MQTT client."""

    @property
    def consumes(self) -> SubscriptionSpec | None:
        """The durable subscription that it consumes; then it does nothing else."""
        return next((one for one in self.subscriptions if one.durable is not None), None)


class ReaderSpec(msgspec.Struct, frozen=True):
    """A client that reads a log page by page. A client reads at most one log."""

    client: str
    log: str
    filter: str
    start_us: int = 0
    offset: int = -1
    """Offset of the first page; -1: the first that is kept."""
    size: int = 4_096
    """Size of a page in bytes."""
    pause_us: int = 200_000
    until_us: int = 0
    """Time after which it stops at the end of the log."""


class Mix(msgspec.Struct, frozen=True):
    """Shares of the guarantees among a workload's publications; they sum to 1."""

    eventual: float = 0.0
    fifo: float = 0.0
    causal: float = 0.0
    total: float = 0.0

    @property
    def shares(self) -> tuple[tuple[Guarantee, float], ...]:
        """Those above zero, weakest first."""
        all_four = (self.eventual, self.fifo, self.causal, self.total)
        return tuple((g, share) for g, share in zip(Guarantee, all_four, strict=True) if share > 0)


class WorkloadSpec(msgspec.Struct, frozen=True):
    """What some clients do. A client begins when all its subscriptions are confirmed, and not before `start_us`."""

    kind: str
    """bank, random, chatter or values."""
    clients: tuple[str, ...]
    topics: tuple[str, ...]
    keys: int = 100
    """Per topic: `acc-0`, `acc-1`, ... in a bank, `k0`, `k1`, ... elsewhere."""
    operations: int = 100
    """Per client, on its own initiative."""
    mix: Mix = Mix(causal=1.0)
    interval_us: int = 50_000
    """Between two operations of a client: exactly this in a bank, this on average elsewhere."""
    payload: int = 32
    start_us: int = 0
    window: int = 0
    """A client pauses while this many of its publications wait for their receipt `safe`; 0 is no such limit. With
    `interval = "0s"` it makes a publisher that saturates the network without flooding its own memory."""
    options: WorkloadOptions = BankOptions()
    bundle_max: int = 0
    """At most so many publications travel as one bundle; 0 is no such limit. It is the client that bundles: the least
    of its workloads counts."""


class FaultKind(enum.StrEnum):
    """What happens at a fault's time; see `FaultSpec` for the fields each one uses."""

    CRASH = "crash"
    RECOVER = "recover"
    FREEZE = "freeze"
    UNFREEZE = "unfreeze"
    HANG = "hang"
    UNHANG = "unhang"
    DISK_LOW = "disk_low"
    DISK_FULL = "disk_full"
    DISK_FREE = "disk_free"
    UNRESOLVE = "unresolve"
    RESOLVE = "resolve"
    SUSPEND = "suspend"
    RESUME = "resume"
    LEAP = "leap"
    CUT = "cut"
    HEAL = "heal"
    PARTITION = "partition"
    JOIN = "join"
    DOUBLE = "double"
    LEAVE = "leave"
    RESTART = "restart"


class FaultSpec(msgspec.Struct, frozen=True):
    """Something done to the network.

    | kind | fields | meaning |
    |---|---|---|
    | crash | nodes, host | the processes end; with `host` their machines fall silent and nobody is told |
    | recover | nodes, disk, first, found | crashed nodes start again; without `disk` what they persisted is gone, with
    `first` brokers know nobody but the parent they had at first and whom their disks remember, with `found` a broker
    begins the network anew |
    | freeze, unfreeze | nodes | processes stop and go on: nothing is lost, timers fire late |
    | hang, unhang | nodes | brokers answer nothing, while their links keep connections and acknowledge; they go on |
    | disk_low | nodes | brokers take nothing more from clients: little room is left on their disks |
    | disk_full | nodes | nothing more can be written on their disks: what depends on it waits for room |
    | disk_free | nodes | there is room again, and everything goes on |
    | unresolve, resolve | nodes | the names of these brokers do not resolve: nobody can open a connection to them |
    | suspend, resume | nodes | the machines of brokers sleep and wake: a freeze in which their clocks stand still |
    | leap | nodes, by_us | the clocks of brokers leap forward by so much |
    | cut | links | nothing passes between the two nodes of each pair, in both directions |
    | heal | links | these pairs pass again; no links: every cut and partition ends |
    | partition | nodes | nothing passes between `Scenario.side(fault)` and everybody else |
    | join | nodes, parent, latency_us, bandwidth_bps, site, contacts, disk_latency_us | brokers enter the tree |
    | double | nodes, parent, latency_us | second brokers start under names that are taken, by mistake |
    | leave | nodes | nodes go in good order |
    | restart | nodes | brokers go in good order and start again, one after the other: the next one goes when the one
    before it has its place again |
    """

    at_us: int
    kind: FaultKind
    nodes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """Pairs of nodes; they need not be neighbours at the start, since repairs make new links."""
    host: bool = False
    disk: bool = True
    first: bool = False
    found: bool = False
    parent: str | None = None
    latency_us: int = LINK_LATENCY_US
    bandwidth_bps: int | None = None
    site: str | None = None
    contacts: tuple[str, ...] = ()
    disk_latency_us: int = 0
    by_us: int = 0


class Scenario(msgspec.Struct, frozen=True):
    """One run. `brokers` and `clients` are in the order of the file, `faults` in the order of time."""

    name: str
    brokers: tuple[BrokerSpec, ...]
    stack: str = "resprout"
    seed: int = 1
    time_limit_us: int = TIME_LIMIT_US
    """The run ends at quiescence, or here."""
    options: Mapping[str, OptionValue] = {}
    """Of the stack."""
    clients: tuple[ClientSpec, ...] = ()
    workloads: tuple[WorkloadSpec, ...] = ()
    faults: tuple[FaultSpec, ...] = ()
    has_free_client_links: bool = False
    """Whether a broker's links to its clients take nothing of its bandwidth, and are left out of what it sends. Only in
    the simulator."""
    counts_bytes: bool = False
    """Whether the bytes that every node sends are counted; otherwise only where a bandwidth asks for it. Only in the
    simulator."""
    trace: str = "rows"
    """What is recorded of clients: `rows`, one for each observation, or `counts`. Only in the simulator."""
    logs: tuple[LogDeclaration, ...] = ()
    """Logs that brokers keep (`docs/logs.md`)."""
    readers: tuple[ReaderSpec, ...] = ()

    @property
    def bank_initial(self) -> int | None:
        """What every account holds at first, for the judge; None when there is no bank. All banks begin alike."""
        return next((w.options.initial for w in self.workloads if isinstance(w.options, BankOptions)), None)

    @property
    def bundle_caps(self) -> dict[str, int]:
        """How many publications make a bundle at most, of those clients that have a limit of their own."""
        caps: dict[str, int] = {}
        for workload in self.workloads:
            if workload.bundle_max:
                caps |= {
                    name: min(workload.bundle_max, caps.get(name, workload.bundle_max)) for name in workload.clients
                }
        return caps

    def joining(self, fault: FaultSpec) -> tuple[BrokerSpec, ...]:
        """The brokers that a join brings."""
        return tuple(
            BrokerSpec(
                name, fault.parent, fault.latency_us, fault.bandwidth_bps, fault.site, fault.contacts,
                disk_latency_us=fault.disk_latency_us,
            )
            for name in fault.nodes
        )  # fmt: skip

    def roster(self) -> tuple[RosterEntry, ...]:
        """Return all brokers, those that join included, as the configuration of a network of sites names them."""
        joining = [broker for fault in self.faults if fault.kind is FaultKind.JOIN for broker in self.joining(fault)]
        return tuple([RosterEntry(one.name, one.site or "", one.parent) for one in (*self.brokers, *joining)])

    def side(self, fault: FaultSpec) -> tuple[str, ...]:
        """One side of a partition: the nodes it names, and the clients of the brokers among them."""
        named = set(fault.nodes)
        followers = (c.name for c in self.clients if c.broker in named and c.name not in named)
        return (*fault.nodes, *followers)


def random_for(*purpose: str | int) -> random.Random:
    """The generator of this purpose; equal purposes give equal sequences on every machine."""
    text = "\0".join(f"{type(part).__name__}:{part}" for part in purpose)
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
