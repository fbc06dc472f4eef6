"""One drawn schedule of a log: replicas and feeders over sessions that break, with crashes, lost tails of stores, lost
disks, and homes of the feed that die or do not know that they were declared dead. In the end all heals.

The feed is a model of a durable subscription: each home hands out what it does not know to be acknowledged, in an order
of its own that respects what each message depends on.

In half of the schedules the log is compacted. Then each replica must hold exactly what compacting the whole log would
leave, and every page that is read must have all messages but those that may be gone.
"""

from functools import partial
from random import Random
from typing import Any

from msgspec import structs

from resprout.core.bundle import Bundle, pack_payloads, unpack_payloads
from resprout.core.contract import Effect, Note, ProtocolMessage, SetTimer
from resprout.core.guarantee import Guarantee
from resprout.journal.interface import (
    FetchStore,
    Kept,
    OpenStore,
    ResetStore,
    StoreFetched,
    StoreForget,
    StoreOpened,
    StoreRecord,
    StoreTrim,
)
from resprout.logs.declaration import LogDeclaration
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
    LogTold,
    broker_of,
    speaker_of,
)
from resprout.logs.reading import Wanted
from resprout.logs.records import read_entry
from resprout.logs.replica import LogReplica
from resprout.replicas.messages import ReplicaOptions
from tests.logs.compacted import check_page, judge_compacted
from tests.logs.nodes import Feed, Node, Store
from tests.network import Time

HASTY = (
    ReplicaOptions(heartbeat_us=50, patience_us=200),
    ReplicaOptions(heartbeat_us=100, patience_us=400),
    ReplicaOptions(heartbeat_us=50, patience_us=200, batch_bytes_max=300),
)
TICK_US = 150
WINDOW = 12
RESTLESS_US = 12_000
HEALED_US = 400_000
GAPS_AT_START = ("every replica of an earlier log was lost", "the subscription of the log was lost")


class LogSchedule(Time):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = rng = Random(seed)
        self.options = rng.choice(HASTY)
        self.crash_rate = rng.choice((0.0, 0.001, 0.004))
        self.loses_disks = rng.random() < 0.4
        self.snapshot_slots = rng.choice((3, 10, 1_000))
        count = rng.choice((1, 3, 3, 3, 5))
        self.log = LogDeclaration("bank", "bank/#", tuple(f"b{i}" for i in range(count)))
        self.keys = compacting = Random(f"compaction {seed}")
        if compacting.random() < 0.5:
            self.log = structs.replace(
                self.log, compact=True, compact_bytes=compacting.choice((1, 400, 2_000)),
                compact_grace_us=compacting.choice((0, 2_000, 1 << 40)),
            )  # fmt: skip
        self.pages = self.compactions = 0
        """Number of pages that were read and checked, and of replicas that have compacted."""
        self.nodes = {name: Node(name) for name in (*self.log.replicas, "x0", "x1")}
        self.sessions: dict[frozenset[str], int] = {}
        self.last_us: dict[tuple[str, str], int] = {}
        self.cut: set[str] = set()
        self.timers: dict[tuple[str, int, Any], int] = {}
        self.kept: dict[int, bytes] = {}
        """By number of the entry: what any replica has ever kept there."""
        self.needs: dict[tuple[str, int], tuple[tuple[str, int], ...]] = {}
        """By message: those that every subscriber sees before it."""
        self.published: list[Bundle] = []
        self.acknowledged: dict[str, int] = {}
        self.feeds: list[Feed] = []
        self.is_rushed = False
        """A second home was appointed before the log knew that the first one began it: then it suspects a gap."""
        self.crashes = self.wipes = 0
        for node in self.nodes.values():
            self.boot(node)
        self.appoint("b0", begins=True)

    # -- lives ---------------------------------------------------------------------------------------------------------

    def boot(self, node: Node) -> None:
        node.life += 1
        node.is_running = True
        if node.name in self.log.replicas:
            node.replica = LogReplica(
                self.log, node.name, node.life, Random(self.rng.random()), node, self.options, self.snapshot_slots
            )
            node.replica.begin()
        for other in self.nodes.values():
            if other is not node:
                self.renew(node.name, other.name)
        self.after(TICK_US, partial(self.tick, node, node.life))
        self.perform(node)

    def crash(self, node: Node, wipe: bool = False) -> None:
        self.crashes += 1
        self.wipes += wipe
        node.is_running, node.replica = False, None
        node.writes, node.out = [], []
        for name, store in node.stores.items():
            if name != self.log.votes:
                del store.records[self.rng.randint(min(store.synced, len(store.records)), len(store.records)) :]
        if wipe:
            node.stores = {}
        for other in self.nodes:
            if other != node.name:
                self.sessions[frozenset((node.name, other))] = self.session(node.name, other) + 1
        self.feeds = [feed for feed in self.feeds if feed.home != node.name]

    def tick(self, node: Node, life: int) -> None:
        if not node.is_running or node.life != life:
            return
        self.after(TICK_US, partial(self.tick, node, life))
        if node.replica is not None:
            node.replica.tick(self.now_us)
        for feed in self.feeds:
            if feed.home == node.name:
                feed.feeder.tick()
        self.perform(node)

    # -- effects -------------------------------------------------------------------------------------------------------

    def perform(self, node: Node) -> None:
        """Writes come first; a crash may come between any two effects."""
        writes, node.writes = node.writes, []
        out, node.out = node.out, []
        cut = len(writes) + len(out)
        if self.now_us < RESTLESS_US and self.rng.random() < self.crash_rate and self.may_fall(node.name):
            cut = self.rng.randint(0, cut)
        for effect in writes[:cut]:
            self.change(node, effect)
        for item in out[: max(0, cut - len(writes))]:
            if isinstance(item, tuple):
                self.transmit(node.name, *item)
            else:
                self.execute(node, item)
        if cut < len(writes) + len(out):
            self.crash(node)

    def change(self, node: Node, effect: Effect) -> None:
        if isinstance(effect, StoreRecord):
            store = node.stores[effect.store]
            if effect.store == self.log.entries:
                entry = read_entry(effect.record)
                assert entry is not None and entry.number == store.end, "a number is its position"
                assert self.kept.setdefault(store.end, effect.record) == effect.record, f"entry {store.end} differs"
            store.records.append(effect.record)
        elif isinstance(effect, StoreForget):
            for each in node.stores.values():
                each.synced = len(each.records)
            store = node.stores[effect.store]
            store.floor = max(store.floor, store.end - effect.count)
        elif isinstance(effect, StoreTrim):
            for each in node.stores.values():
                each.synced = len(each.records)
            store = node.stores[effect.store]
            gone = min(max(0, effect.position - store.base), len(store.records))
            store.base, store.records, store.synced = store.base + gone, store.records[gone:], store.synced - gone
        elif isinstance(effect, ResetStore):
            store = node.stores[effect.store] = Store()
            store.base = store.floor = effect.position
        else:
            raise AssertionError(effect)

    def execute(self, node: Node, effect: Effect) -> None:
        later = partial(self.after, self.rng.randint(1, 60))
        if isinstance(effect, OpenStore):
            store = node.stores.setdefault(effect.store, Store())
            records = store.records[store.floor - store.base :] if effect.is_read else []
            opened = StoreOpened(effect.store, list(records), store.base, store.end)
            later(partial(self.with_replica, node, node.life, lambda replica: replica.opened(opened, self.now_us)))
        elif isinstance(effect, FetchStore):
            store = node.stores[effect.store]
            found = [
                Kept(store.base + place, 0, record)
                for place, record in enumerate(store.records)
                if store.base + place >= effect.position
            ][: self.rng.randint(1, 8)]
            fetched = StoreFetched(effect.token, found, store.base, store.end)
            later(partial(self.with_replica, node, node.life, lambda replica: replica.fetched(fetched)))
        elif isinstance(effect, SetTimer):
            key = (node.name, node.life, effect.timer)
            self.timers[key] = effect.at_us
            self.at(effect.at_us, partial(self.fire, node, key, effect.at_us))
        else:
            assert isinstance(effect, Note), effect

    def with_replica(self, node: Node, life: int, action: Any) -> None:
        if node.is_running and node.life == life and node.replica is not None:
            action(node.replica)
            self.perform(node)

    def fire(self, node: Node, key: tuple[str, int, Any], at_us: int) -> None:
        if self.timers.get(key) == at_us:
            del self.timers[key]
            self.with_replica(node, key[1], lambda replica: replica.fired(key[2], self.now_us))

    # -- sessions ------------------------------------------------------------------------------------------------------

    def session(self, one: str, other: str) -> int:
        return self.sessions.get(frozenset((one, other)), 0)

    def transmit(self, sender: str, receiver: str, message: ProtocolMessage) -> None:
        """In order within a session; lost with it."""
        delay_us = self.rng.randint(1, 4) if sender == receiver else self.rng.randint(5, 80)
        at_us = self.last_us[sender, receiver] = max(self.last_us.get((sender, receiver), 0), self.now_us + delay_us)
        self.at(at_us, partial(self.arrive, sender, receiver, self.session(sender, receiver), message))

    def arrive(self, sender: str, receiver: str, session: int, message: ProtocolMessage) -> None:
        node = self.nodes[receiver]
        is_lost = sender != receiver and ({sender, receiver} & self.cut or session != self.session(sender, receiver))
        if is_lost or not node.is_running:
            return
        self.hear(node, sender, message)
        self.perform(node)

    def hear(self, node: Node, sender: str, message: ProtocolMessage) -> None:
        if isinstance(message, LogFed | LogLed):
            for feed in [feed for feed in self.feeds if feed.home == node.name]:
                if isinstance(message, LogFed):
                    feed.feeder.hear_fed(sender, message)
                else:
                    feed.feeder.hear_led(message.leader)
            return
        replica = node.replica
        if replica is None:
            return
        if isinstance(message, LogFeed):
            replica.hear_feed(sender, message, self.now_us)
        elif isinstance(message, LogAsk):
            replica.hear_ask(sender, message, self.now_us)
        elif isinstance(message, LogTold):
            replica.hear_told(sender, message, self.now_us)
        elif isinstance(message, LogFound):
            replica.hear_found(sender, message, self.now_us)
        elif isinstance(message, LogFetch):
            replica.hear_fetch(sender, message)
        elif isinstance(message, LogEntries):
            replica.hear_entries(sender, message)
        elif isinstance(message, LogCopyAsk | LogCopied):
            replica.hear_copy(sender, message)
        else:
            log, speaker = speaker_of(getattr(message, "group"))  # noqa: B009
            assert log == self.log.name and broker_of(speaker) == sender
            replica.hear_replica(speaker, message, self.now_us)

    def renew(self, one: str, other: str) -> None:
        """The session breaks, and the next one begins; what was under way is lost."""
        if not (self.nodes[one].is_running and self.nodes[other].is_running):
            return
        self.sessions[frozenset((one, other))] = self.session(one, other) + 1
        for name, peer in ((one, other), (other, one)):
            node = self.nodes[name]
            if node.replica is not None:
                node.replica.link_up(peer)
            for feed in self.feeds:
                if feed.home == name:
                    feed.feeder.link_up(peer)
            self.perform(node)

    # -- the durable subscription --------------------------------------------------------------------------------------

    def publish(self) -> None:
        publisher = f"p{self.rng.randrange(4)}"
        before = [bundle for bundle in self.published if bundle.publisher == publisher]
        first = before[-1].last + 1 if before else 1
        count = self.rng.choice((1, 1, 3))
        content = pack_payloads([f"{publisher}.{first + place}".encode() for place in range(count)])
        topic = "bank/a"
        if self.log.compact:
            topic = f"bank/{self.keys.randrange(4)}"
            if count == 1 and self.keys.random() < 0.3:
                content = pack_payloads([b""])
        bundle = Bundle(publisher, 1, first, count, 0, topic, (), Guarantee.CAUSAL, b"", content)
        others = [other for other in self.published if other.publisher != publisher]
        needed = [*before[-1:], *([self.rng.choice(others)] if others and self.rng.random() < 0.6 else [])]
        self.needs[bundle.publisher, bundle.first] = tuple((each.publisher, each.first) for each in needed)
        self.published.append(bundle)
        for feed in self.feeds:
            feed.order.append(bundle)

    def appoint(self, home: str, begins: bool = False) -> None:
        """A broker holds the subscription from now on. It may not know the latest acknowledgements."""
        node = self.nodes[home]
        if not begins:
            replicas = [each.replica for each in self.nodes.values() if each.replica is not None]
            self.is_rushed = self.is_rushed or not any(replica.state.id for replica in replicas)
        known = {name: max(0, upto - self.rng.choice((0, 0, 3))) for name, upto in self.acknowledged.items()}
        order = self.shuffled([bundle for bundle in self.published if bundle.last > known.get(bundle.publisher, 0)])
        name = f"{home}.{node.life}.{self.events}.{len(self.published)}"
        feeder = LogFeeder(self.log, name, self.rng.choice(self.log.replicas), node, self.acknowledge)
        self.feeds.append(Feed(home, node.life, order, feeder))
        if begins:
            feeder.begin(self.now_us)
            self.perform(node)

    def shuffled(self, bundles: list[Bundle]) -> list[Bundle]:
        """Another order that respects what each depends on."""
        left, order = list(bundles), list[Bundle]()
        while left:
            inside = {(bundle.publisher, bundle.first) for bundle in left}
            free = [each for each in left if not inside.intersection(self.needs[each.publisher, each.first])]
            chosen = self.rng.choice(free[:3])
            left.remove(chosen)
            order.append(chosen)
        return order

    def acknowledge(self, bundle: Bundle) -> None:
        self.acknowledged[bundle.publisher] = max(self.acknowledged.get(bundle.publisher, 0), bundle.last)
        if self.log.compact:
            return
        holders = sum(self.holds(node, bundle) for node in self.nodes.values())
        assert 2 * holders > len(self.log.replicas) or self.wipes, f"{bundle} is acknowledged with {holders} copies"

    def holds(self, node: Node, bundle: Bundle) -> bool:
        needle = unpack_payloads(bundle)[-1]
        return any(needle in record for store in node.stores.values() for record in store.records)

    def hand_out(self) -> None:
        for feed in list(self.feeds):
            node = self.nodes[feed.home]
            while feed.handed < len(feed.order) and feed.feeder.waiting < WINDOW and self.rng.random() < 0.9:
                feed.feeder.hand(feed.order[feed.handed], -1, self.now_us)
                feed.handed += 1
            self.perform(node)

    # -- mishaps -------------------------------------------------------------------------------------------------------

    def may_fall(self, name: str) -> bool:
        """A minority may be down; one disk at a time may be lost, and not before the last one was replaced."""
        down = [each for each in self.log.replicas if not self.nodes[each].is_running]
        return name not in self.log.replicas or 2 * (len(down) + 1) < len(self.log.replicas) or not self.loses_disks

    def may_lose_disk(self, name: str) -> bool:
        others = [self.nodes[each].replica for each in self.log.replicas if each != name]
        return len(others) > 1 and all(each is not None and each.is_complete for each in others)

    def mishap(self) -> None:
        rng = self.rng
        name = rng.choice(sorted(self.nodes))
        node = self.nodes[name]
        kind = rng.randrange(7)
        if kind == 0 and node.is_running and self.may_fall(name):
            self.crash(node, self.loses_disks and rng.random() < 0.5 and self.may_lose_disk(name))
        elif kind <= 2:
            down = [each for each in self.nodes.values() if not each.is_running]
            if down:
                self.boot(rng.choice(down))
        elif kind == 3:
            other = rng.choice(sorted(self.nodes))
            if other != name:
                self.renew(name, other)
        elif kind == 4:
            self.cut_off({name} if rng.random() < 0.5 else set())
        elif kind == 5 and node.is_running and rng.random() < 0.3 and len(self.feeds) < 3:
            self.appoint(name)  # while the earlier home does not know yet
        elif kind == 6 and len(self.feeds) > 1:
            del self.feeds[0]
        self.keep_a_home()

    def cut_off(self, names: set[str]) -> None:
        """What was lost in a cut was lost with a session."""
        before, self.cut = self.cut, names
        for name in before:
            for other in self.nodes:
                if other != name:
                    self.renew(name, other)

    def keep_a_home(self) -> None:
        if not self.feeds:
            running = [each.name for each in self.nodes.values() if each.is_running]
            if running:
                self.appoint(self.rng.choice(running))

    # -- the run -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        while self.now_us < RESTLESS_US:
            if not self.pass_on():
                self.now_us += 50
            if self.rng.random() < 0.02:
                self.publish()
            if self.rng.random() < 0.05:
                self.hand_out()
            if self.rng.random() < 0.01:
                self.mishap()
            if self.log.compact and self.keys.random() < 0.05:
                self.read_somewhere()
        self.cut_off(set())
        for node in self.nodes.values():
            if not node.is_running:
                self.boot(node)
        self.keep_a_home()
        self.publish()
        self.heal()
        self.judge()
        if self.log.compact:
            for name in self.log.replicas:
                node = self.nodes[name]
                assert node.replica is not None
                stores = {store: kept.records for store, kept in node.stores.items()}
                first = node.stores[self.log.entries].base
                judge_compacted(self.log, self.kept, node.replica.entries.compacted, stores, first)
                self.compactions += bool(node.replica.entries.compacted.through)

    def heal(self) -> None:
        end_us = self.now_us + HEALED_US
        while not self.is_done():
            assert self.now_us < end_us and self.pass_on(), f"no progress: {self.account()}"
            self.keep_a_home()
            self.hand_out()

    def is_done(self) -> bool:
        if any(feed.handed < len(feed.order) or feed.feeder.waiting for feed in self.feeds):
            return False
        replicas = [self.nodes[name].replica for name in self.log.replicas]
        ends = {replica.entries.end for replica in replicas if replica is not None and replica.is_complete}
        return ends == {len(self.kept)} and all(replica is not None and replica.is_complete for replica in replicas)

    def account(self) -> str:
        told = [
            f"{name}: {replica.identity} of {replica.members}, {replica.entries.end} of {replica.state.next}"
            for name in self.log.replicas
            if (replica := self.nodes[name].replica) is not None
        ]
        feeds = [f"{feed.home}: {feed.handed} of {len(feed.order)}, {feed.feeder.waiting}" for feed in self.feeds]
        return "; ".join([*told, *feeds])

    def judge(self) -> None:
        """Every message once, behind all that it depends on, with equal offsets at all replicas."""
        assert sorted(self.kept) == list(range(len(self.kept)))
        seen: dict[tuple[str, int], int] = {}
        end = 0
        for place, record in sorted(self.kept.items()):
            found = read_entry(record)
            assert found is not None and (found.number, found.offset) == (place, end)
            end = found.following
            bundle = found.messages
            if bundle is None:
                assert self.is_rushed and found.gap in GAPS_AT_START, f"a gap without need: {found.gap}"
                assert found.count == 1
                continue
            assert found.count == bundle.count
            for number in range(bundle.first, bundle.last + 1):
                assert (bundle.publisher, number) not in seen, f"{bundle.publisher}.{number} is there twice"
                seen[bundle.publisher, number] = found.offset + number - bundle.first
        for each in self.published:
            for number in range(each.first, each.last + 1):
                assert (each.publisher, number) in seen, f"{each.publisher}.{number} is missing"
            for needed in self.needs[each.publisher, each.first]:
                assert seen[needed] < seen[each.publisher, each.first], f"{each} stands before {needed}"

    # -- compaction ----------------------------------------------------------------------------------------------------

    def read_somewhere(self) -> None:
        """Read a page at a replica that may serve reads, and check it."""
        able = [node for node in self.nodes.values() if node.replica is not None and node.replica.can_read]
        if able:
            node = self.keys.choice(able)
            assert node.replica is not None
            offset = self.keys.randint(0, node.replica.state.end)
            found = partial(check_page, self.log, self.kept, offset, node.replica.state.end)
            node.replica.reader.read(Wanted(offset), found)
            self.pages += 1
            self.perform(node)
