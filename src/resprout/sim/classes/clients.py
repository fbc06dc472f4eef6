"""Clients that repeat themselves, do not read, or share a name; and brokers that share one.

`producers`: idempotent producers (`connect(life=...)`) crash, connect again with the same life and publish it all. They
come back at once or after half a minute, to any broker, and group their publications differently. Meanwhile brokers
crash, freeze, leave or are cut off, or all are killed at once and go on from their journals. Besides what the judge
finds, this is wrong: the last process of a producer is not told that each of its publications is safe.

`unread`: subscribers read slowly, or not at all for a while, and their brokers may die. Some runs have a durable
subscription, or a group, whose oldest messages are dropped. Shares of subscribers are small in most runs, so that they
are soon full: then a subscriber is cut off, its oldest messages are dropped, or publishers of its topics wait, as its
policy says. Besides what the judge finds, this is wrong: a publication that no such subscriber is owed waits for its
`delivered`.

`doubled-clients`: two programs connect under one name, at one broker or far apart, and everything else may go wrong as
well. The later one stays. The earlier one is told, wherever it is, and until then everything that is promised holds for
it.

`doubled-names`: a second broker starts under a name that is taken, and may ask anywhere in the tree. Nothing else may
go wrong, or the real one freezes for a moment, or for so long that it is replaced, or its process dies, for good or
not; or a broker on the way to it freezes. Sometimes there are two seconds at once.
"""

from random import Random
from typing import Final

import msgspec

from resprout.audit.history import History
from resprout.audit.records import seconds
from resprout.filters.predicate import topic_matches
from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import (
    ClientSpec,
    FaultKind,
    FaultSpec,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
    random_for,
)
from resprout.sim.classes.durable import drop_oldest
from resprout.sim.classes.machines import black_out, with_disks
from resprout.sim.clients import reads_at_once
from resprout.sim.mishaps import GrowingTrial, with_blows
from resprout.sim.run import RunResult, Trial, formed_us
from resprout.trace import kinds

PRODUCERS_MAX: Final = 3
CRASHES_MAX: Final = 3
OPERATIONS: Final = (5, 60)
INTERVALS_US: Final = (200, 2_000, 20_000, 100_000)
BURSTS: Final = (1, 1, 3, 8)

IDLE_US: Final = 30_000_000
"""Longer than anything else that a publication may wait for without a fault: links of 200 ms and a slow report."""
PATIENCE_US: Final = 10_000_000
"""Ample, in a run without faults, for a publication that everybody reads at once."""
LOG_BYTES: Final = 64 << 20
SHARE_BYTES: Final = (1 << 12, 1 << 14, 64 << 20)
SLOW_US: Final = (200_000, 2_000_000)
POLICIES: Final = ("disconnect", "disconnect", "block", "drop_oldest", "drop_oldest")
READING_US: Final = (0, 500, 20_000, 200_000)

SHORT_US: Final = 1_200_000
"""Well below the time after which a broker may be taken for dead."""
NEAR_US: Final = 500_000
"""Between what happens to the real one and the start of the second."""

LATE_US_MAX = 2_000_000
DOUBLED_MAX = 3


class ProducersTrial(Trial, frozen=True):
    def complaints(self, result: RunResult) -> list[str]:
        """Publications that the last process of their producer was not told to be safe."""
        complaints = []
        for client in self.scenario.clients:
            if client.repeats and (missing := unconfirmed(client.name, result)):
                numbers = ", ".join(f"{stream} {seq}" for stream, seq in missing[:10])
                complaints.append(f"UNCONFIRMED: {client.name} repeated its publications and was not told: {numbers}")
        return complaints


def producers(seed: int) -> Trial:
    rng = random_for(seed, "producers")
    if rng.random() < 0.2:
        stage = GrowingTrial(seed, rng, lambda drawn: with_disks(_with_producers(drawn, rng), rng))
        stage.later(*_crashes(stage.scenario, rng, stage.formed_us))
        black_out(stage, rng)
        return ProducersTrial(stage.trial.scenario, stage.trial.at_events)
    scenario = _with_producers(draw_scenario(seed), rng)
    begin_us = formed_us(scenario)
    scenario = msgspec.structs.replace(scenario, faults=tuple(_crashes(scenario, rng, begin_us)))
    if len(scenario.brokers) > 1 and rng.random() < 0.7:
        struck = with_blows(rng, scenario, begin_us)
        return ProducersTrial(struck.scenario, struck.at_events)
    work = tuple(msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in scenario.workloads)
    return ProducersTrial(msgspec.structs.replace(scenario, workloads=work))


def _with_producers(drawn: Scenario, rng: Random) -> Scenario:
    topics = tuple(dict.fromkeys(topic for work in drawn.workloads for topic in work.topics))
    added = [
        ClientSpec(f"p{number}", rng.choice(drawn.brokers).name, repeats=True)
        for number in range(rng.randint(1, PRODUCERS_MAX))
    ]
    work = WorkloadSpec(
        kind="random",
        clients=tuple(client.name for client in added),
        topics=topics,
        keys=rng.choice((0, 2, 10)),
        operations=rng.randint(*OPERATIONS),
        mix=rng.choice(drawn.workloads).mix,
        interval_us=rng.choice(INTERVALS_US),
        window=rng.choice((0, 0, 1, 20)),
        options=RandomOptions(burst=rng.choice(BURSTS)),
    )
    return msgspec.structs.replace(drawn, clients=(*drawn.clients, *added), workloads=(*drawn.workloads, work))


def _crashes(scenario: Scenario, rng: Random, from_us: int) -> list[FaultSpec]:
    """Return crashes of the processes of producers; each is followed by another process."""
    work = scenario.workloads[-1]
    busy_us = work.operations * work.interval_us
    faults: list[FaultSpec] = []
    for name in work.clients:
        back_us = from_us
        for _ in range(rng.randint(1, CRASHES_MAX)):
            at_us = back_us + rng.choice((rng.randint(1, 20_000), rng.randint(1, busy_us), rng.randint(1, 2 * busy_us)))
            back_us = at_us + rng.choice((1, rng.randint(1, 300_000), rng.randint(1, 3_000_000), 35_000_000))
            faults.append(FaultSpec(at_us, FaultKind.CRASH, (name,)))
            faults.append(FaultSpec(back_us, FaultKind.RECOVER, (name,)))
    return sorted(faults, key=lambda fault: fault.at_us)


def unconfirmed(name: str, result: RunResult) -> list[tuple[str, int]]:
    """Return the publications of this producer that its last process was not told to be safe, or refused."""
    waiting: dict[tuple[str, int], None] = {}
    published: dict[tuple[str, int], None] = {}
    for row in result.rows:
        if row.node != name:
            continue
        message = (row.stream or "", row.seq or 0)
        if row.kind == kinds.PUBLISH:
            published[message] = waiting[message] = None
        elif row.kind == kinds.UNFREEZE:
            waiting = dict(published)
        elif row.kind == kinds.REFUSED:
            published.pop(message, None)
            waiting.pop(message, None)
        elif row.kind == kinds.RECEIPT and row.receipt in ("safe", "delivered"):
            waiting.pop(message, None)
    return list(waiting)


class UnreadTrial(Trial, frozen=True):
    def complaints(self, result: RunResult) -> list[str]:
        """Publications that waited for somebody whom they do not concern."""
        if self.at_events:  # then there are other reasons to wait
            return []
        return held_up(self.scenario, result)


def unread(seed: int) -> Trial:
    rng = random_for(seed, "unread")
    scenario = draw_scenario(seed)
    calm = rng.random() < 0.5 or len(scenario.brokers) == 1
    begin_us = formed_us(scenario)
    policies = POLICIES[:3] if scenario.bank_initial is not None else POLICIES  # replicas need every operation
    clients = tuple([_reader(rng, client, begin_us, policies) for client in scenario.clients])
    clients += _consumers(scenario)
    share = {"subscriber_bytes": rng.choice(SHARE_BYTES), "slow_consumer_us": rng.choice(SLOW_US)}
    scenario = msgspec.structs.replace(scenario, clients=clients, options={**scenario.options, **share})
    if not calm:
        return with_blows(rng, scenario, begin_us)
    work = tuple(msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in scenario.workloads)
    options = {**scenario.options, "log_bytes": LOG_BYTES}  # where one is full, publishers wait for good reason
    return UnreadTrial(msgspec.structs.replace(scenario, workloads=work, options=options))


def _reader(rng: Random, client: ClientSpec, from_us: int, policies: tuple[str, ...]) -> ClientSpec:
    client = msgspec.structs.replace(client, when_full=rng.choice(policies))
    chance = rng.random()
    if chance < 0.4:
        begin_us = from_us + rng.choice((0, rng.randint(0, 3_000_000)))
        return msgspec.structs.replace(client, idle_us=(begin_us, begin_us + IDLE_US))
    if chance < 0.6:
        return msgspec.structs.replace(client, reading_us=rng.choice(READING_US))
    return client


def _consumers(scenario: Scenario) -> tuple[ClientSpec, ...]:
    """Consumers of a durable subscription whose oldest messages are dropped, in one run of three."""
    rng = random_for(scenario.seed, "unread consumers")
    if rng.random() >= 1 / 3:
        return ()
    topics = list(dict.fromkeys(topic for work in scenario.workloads for topic in work.topics))
    group = rng.random() < 0.5
    wanted = drop_oldest(SubscriptionSpec(rng.choice((*topics, "#")), None, "s0", group), rng)
    return tuple(
        [
            ClientSpec(
                f"d{i}",
                rng.choice(scenario.brokers).name,
                subscriptions=(wanted,),
                reading_us=rng.choice(READING_US),
            )
            for i in range(rng.randint(2, 3) if group else 1)
        ]
    )


def held_up(scenario: Scenario, result: RunResult) -> list[str]:
    """What was told to be `delivered` late, though nobody who does not read at once asked for its topic. (Where one
    asked for some of a topic, what it did not ask for may travel in one bundle with what it did; and where one blocks
    publishers of its topics, what these publish on others waits behind it, in their order.)"""
    history = History(result.rows)
    slow = {client.name for client in scenario.clients if not reads_at_once(client)}
    filters = {s.predicate.filter for life in history.lives if life.node in slow for s in life.subscriptions}
    filters |= {client.consumes.filter for client in scenario.clients if client.consumes is not None}
    told = {
        (row.publisher or "", row.incarnation or 0, row.stream or "", row.seq or 0): row.time_us
        for _, row in history.receipts
        if row.receipt == "delivered"
    }
    blocks = any(client.name in slow and client.when_full == "block" for client in scenario.clients)
    blocked: set[str] = set()
    complaints = []
    for publication in history.publications:
        if any(topic_matches(filter, topic) for filter in filters for topic in publication.topics):
            if blocks:
                blocked.add(publication.id[0])
            continue
        if publication.id[0] in blocked or publication.id[0] in slow:  # the latter may be cut off, and told no more
            continue
        got = [life.first[publication.number].time_us for life in history.lives if publication.number in life.first]
        has_us = max([publication.time_us, *got])
        told_us = told.get(publication.id, result.stats.time_us)
        if told_us > has_us + PATIENCE_US:
            name, had, at = history.name(publication.number), seconds(has_us), seconds(told_us)
            complaints.append(f"HELD UP: all had {name} at {had}, and its publisher was told so at {at}")
    return complaints


def doubled_names(seed: int) -> Trial:
    rng = random_for(seed, "doubled-names")
    stage = GrowingTrial(seed, rng)
    names = stage.model.names
    if len(names) == 1:
        return stage.trial
    name = rng.choice(names)
    rehearsal = stage.rehearse()
    event = stage.moment(rehearsal, stage.formed_us)
    at_us = rehearsal.time_of(event)
    mishap = rng.choice(("none", "none", "freeze", "freeze", "other", "long", "crash", "crash", "return", "return"))
    if mishap in ("long", "crash", "return") and not stage.model.bears([name]):
        mishap = "freeze"
    begins_us = max(stage.formed_us, at_us + rng.randint(-NEAR_US, NEAR_US))
    lasts_us = rng.randint(5_000_000, 12_000_000) if mishap == "long" else rng.randint(1, SHORT_US)
    victim = rng.choice([other for other in names if other != name]) if mishap == "other" else name
    if mishap in ("freeze", "other", "long"):
        stage.later(
            FaultSpec(begins_us, FaultKind.FREEZE, (victim,)),
            FaultSpec(begins_us + lasts_us, FaultKind.UNFREEZE, (victim,)),
        )
    elif mishap in ("crash", "return"):
        stage.later(FaultSpec(begins_us, FaultKind.CRASH, (name,), host=rng.random() < 0.3))
    if mishap == "return":
        back_us = begins_us + rng.choice((1, rng.randint(1, NEAR_US), rng.randint(1, 12_000_000)))
        stage.later(FaultSpec(back_us, FaultKind.RECOVER, (name,), disk=rng.random() < 0.5))
    for number in range(rng.choice((1, 1, 1, 2))):
        doubled = name if not number or rng.random() < 0.7 else rng.choice(names)
        parent = rng.choice([other for other in names if other != doubled])
        second = FaultSpec(at_us, FaultKind.DOUBLE, (doubled,), parent=parent, latency_us=rng.randint(0, 20_000))
        if number and rng.random() < 0.5:
            stage.later(FaultSpec(at_us + rng.randint(1, NEAR_US), second.kind, second.nodes, parent=parent))
        else:
            stage.strike(event, second)
    return stage.trial


class DoubledTrial(Trial, frozen=True):
    def complaints(self, result: RunResult) -> list[str]:
        """Names that belong to two sessions in the end, or to none."""
        left = {row.node for row in result.rows if row.kind == kinds.LEAVE}
        return [
            f"DOUBLED: {client.name} and {client.called} share a name, and these were told: {' '.join(sorted(left))}"
            for client in self.scenario.clients
            if client.called is not None and (client.called not in left or client.name in left)
        ]


def doubled_clients(seed: int) -> Trial:
    rng = random_for(seed, "doubled-clients")
    scenario = draw_scenario(seed)
    begin_us = formed_us(scenario)
    scenario = _doubled(rng, scenario, begin_us)
    if rng.random() < 0.4 and len(scenario.brokers) > 1:
        struck = with_blows(rng, scenario, begin_us)
        return DoubledTrial(struck.scenario, struck.at_events)
    work = tuple(msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in scenario.workloads)
    return DoubledTrial(msgspec.structs.replace(scenario, workloads=work))


def _doubled(rng: Random, scenario: Scenario, begin_us: int) -> Scenario:
    """Some clients have doubles, which do the same work. They begin together, or one of them later."""
    owners = rng.sample(scenario.clients, rng.randint(1, min(DOUBLED_MAX, len(scenario.clients))))
    doubles = tuple([_double(rng, scenario, owner) for owner in owners])
    faults = list(scenario.faults)
    for double in doubles:
        late = rng.choice((None, double.name, double.name, double.called))
        if late is not None:
            at_us = begin_us + rng.randint(0, LATE_US_MAX)
            faults += [FaultSpec(1, FaultKind.CRASH, (late,)), FaultSpec(at_us, FaultKind.RECOVER, (late,))]
    name_of = {double.called: double.name for double in doubles}
    work = [
        msgspec.structs.replace(work, clients=(*work.clients, *[name_of[n] for n in work.clients if n in name_of]))
        for work in scenario.workloads
    ]
    return msgspec.structs.replace(
        scenario,
        clients=(*scenario.clients, *doubles),
        workloads=tuple(work),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
    )


def _double(rng: Random, scenario: Scenario, owner: ClientSpec) -> ClientSpec:
    broker = rng.choice((owner.broker, *[broker.name for broker in scenario.brokers]))
    return msgspec.structs.replace(owner, name=f"{owner.name}x", broker=broker, called=owner.name)
