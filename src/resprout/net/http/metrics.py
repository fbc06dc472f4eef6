"""What a broker has counted, as Prometheus wants it. Everything is read when it is asked for; nothing is kept here."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from resprout import __version__
from resprout.core.errors import escape
from resprout.edge.broker.meter import BOUNDS_US, LatencyCounts
from resprout.net.bookkeeper import Bookkeeper
from resprout.net.disk import FULL, LOW, OK
from resprout.stacks.status import SpillSeen, StackStatus

_KINDS_FIRST: Final = (
    "suspect", "repair_begin", "repair_end", "fenced", "joined", "few_copies", "two_networks",
    "disk_low", "disk_full", "slow_consumer", "held",
)  # fmt: skip
"""Kinds of notes that are there from the beginning, so that the first one is seen as a change."""
_STATES: Final = (OK, LOW, FULL)
REFUSAL_CODES: Final = (
    ("connections from one address", "address_connections"),
    ("have not said who they are", "unidentified_connections"),
    ("connections is the limit", "connections"),
    ("is the limit", "limit"),
    ("no frame", "malformed"),
    ("beyond its bound", "bound"),
    ("no clock can have", "stamp"),
    ("not believed", "not_believed"),
    ("never said", "forged"),
    ("as a neighbour", "not_a_neighbour"),
    ("key of the network", "network_key"),
    ("in time", "timeout"),
    ("may not", "forbidden"),
    ("not shown", "unknown_identity"),
    ("rules", "forbidden"),
    ("certificate", "certificate"),
    ("TLS", "tls"),
    ("secret", "login"),
    ("login", "login"),
    ("name", "name"),
)
"""Labels of `resprout_refusals_total`: the first that a reason contains, or "other". The log has the sentences."""


def _logs(status: StackStatus) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"resprout_event_log_{name}", text, labels=["log"])
        for name, text in (
            ("first_offset", "The first offset that the replica here has."),
            ("end_offset", "The offset behind the last message that it has."),
            ("leads", "1 where the replica here leads the log."),
            ("leaderless_seconds", "For how long it has known no leader that a majority follows."),
            ("behind_seconds", "For how long it has lacked something that the leader has."),
            ("unfed", "Bundles that the feeder here has, and that are not in the log yet."),
        )
    }
    lag = GaugeMetricFamily(
        "resprout_event_log_lag", "Offsets from a stored position to the end of the log.", labels=["log", "position"]
    )
    for log in status.logs:
        values = {
            "first_offset": log.first, "end_offset": log.end, "leads": int(log.role == "leader"),
            "leaderless_seconds": log.leaderless_seconds, "behind_seconds": log.behind_seconds,
        }  # fmt: skip
        for name, value in values.items() if log.role else ():
            if isinstance(value, int | float):
                families[name].add_metric([log.name], value)
        if log.is_feeding:
            families["unfed"].add_metric([log.name], log.unfed)
        for one in log.positions if log.role == "leader" else ():
            lag.add_metric([log.name, one.name], one.lag)
    if status.logs:
        yield from (*families.values(), lag)


def _durables(status: StackStatus) -> Iterator[Metric]:
    if not status.durables:
        return
    gauges = {
        "consumers_count": ("consumers", "Consumers of a durable subscription that is held here."),
        "lag_messages": ("lag_messages", "Messages of it that are not acknowledged."),
        "lag_bytes": ("lag_bytes", "Their bytes."),
        "lag_seconds": ("lag_seconds", "For how long the oldest of them has been here."),
        "unacked": ("unacked_messages", "Messages that its consumers have."),
    }
    counters = {
        "redeliveries": ("redeliveries", "Messages of it that came back without an acknowledgement."),
        "dead_letters": ("dead_letters", "Messages of it that became dead letters."),
        "dropped": ("dropped", "Messages of it that were dropped or purged."),
        "follow_ups": ("follow_ups", "Messages of it that were acknowledged together with a publication."),
        "repeats": ("repeats", "Messages of it that were dropped as repeats, by their message_id."),
    }
    for kind, families in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
        for field, (name, text) in families.items():
            family = kind(f"resprout_durable_{name}", text, labels=["subscription"])
            for one in status.durables:
                family.add_metric([one.name], getattr(one, field))
            yield family


class BrokerCollector(Collector):
    def __init__(self, books: Bookkeeper) -> None:
        self._books = books

    def collect(self) -> Iterator[Metric]:
        yield from self._place()
        yield from self._traffic()
        yield from self._queues()
        yield from _logs(self._books.status())
        yield from _durables(self._books.status())
        yield from self._trouble()

    def _place(self) -> Iterator[Metric]:
        books, status = self._books, self._books.status()
        info = {"name": books.name, "stack": books.stack, "version": __version__}
        yield InfoMetricFamily("resprout_broker", "Who this is.", info)
        yield _gauge("broker_life", "The number of this life; it grows with each one.", books.life)
        yield _gauge("broker_ready", "1 when it has its place and serves clients.", int(status.serving))
        yield _gauge("neighbours", "Brokers that it passes publications to.", len(status.neighbours))
        yield _gauge("neighbours_silent", "Of these, how many are not heard.", len(status.silent))
        yield _gauge("repairs_running", "Repairs of the tree that go on around this broker.", len(status.repairs))

    def _traffic(self) -> Iterator[Metric]:
        tally = self._books.tally
        yield _counter("publications", "Messages that clients here published.", tally.published)
        yield _counter("publication_bytes", "Their bytes.", tally.published_bytes)
        yield _counter("deliveries", "Messages given to clients here, each copy.", tally.delivered)
        yield _counter("delivery_bytes", "Their bytes.", tally.delivered_bytes)
        yield _counter("carried", "Messages that came from other brokers.", tally.carried)
        yield _counter("passed_on", "Messages sent to other brokers, each copy.", tally.passed_on)
        receipts = CounterMetricFamily(
            "resprout_receipts", "Publications of clients here that have turned safe, or delivered.", labels=["level"]
        )
        seconds = HistogramMetricFamily(
            "resprout_receipt_seconds",
            "From a publication's arrival until its publisher was told so, of one in five milliseconds at most.",
            labels=["level"],
        )
        for level, count, latency in (
            ("safe", tally.safe, tally.safe_latency),
            ("delivered", tally.spread, tally.spread_latency),
        ):
            receipts.add_metric([level], count)
            seconds.add_metric([level], _buckets(latency), latency.sum_us / 1e6)
        yield receipts
        yield seconds

    def _queues(self) -> Iterator[Metric]:
        books, status = self._books, self._books.status()
        families = {
            "sessions": GaugeMetricFamily("resprout_sessions", "Sessions that stand.", labels=["role"]),
            "messages": GaugeMetricFamily("resprout_queue_messages", "Sent and not acknowledged.", labels=["role"]),
            "bytes": GaugeMetricFamily(
                "resprout_queue_bytes", "Not acknowledged, or not taken by a client.", labels=["role"]
            ),
        }
        sessions = books.sessions()
        for role in ("broker", "client"):
            of_role = [one for one in sessions if one.role == role]
            families["sessions"].add_metric([role], len(of_role))
            families["messages"].add_metric([role], sum([one.unconfirmed for one in of_role]))
            queued = [max(one.unconfirmed_bytes, status.unread.get(one.peer, 0)) for one in of_role]
            families["bytes"].add_metric([role], sum(queued))
        yield from families.values()
        unread = max(status.unread.values(), default=0)
        yield _gauge("unread_bytes_max", "What the slowest subscriber here has not taken.", unread)
        yield _gauge("paused_subscriptions", "Subscribers anywhere that publishers wait for.", len(status.paused))
        yield _gauge("held_publishers", "Clients here whose publications wait.", len(status.held))
        yield _counter("slow_consumers", "Subscribers cut off, in this life of the broker.", status.slow_consumers)
        yield _counter("dropped_messages", "Dropped for slow subscribers that want it so.", status.dropped_messages)
        yield _gauge("connections", "Open connections, those without a session included.", books.connections)
        for name, text, value in (
            ("log_bytes", "Kept for others, or for readers here.", status.log_bytes),
            ("log_bundles", "The same in bundles.", status.log_bundles),
            ("log_bytes_max", "Beyond it, clients that publish are held back.", status.log_bytes_max),
        ):
            if isinstance(value, int):
                yield _gauge(name, text, value)
        if isinstance(status.spill, SpillSeen):
            spill = status.spill
            yield _gauge("spill_bytes", "On disk now, of what waits for those who are slow.", spill.bytes)
            yield _gauge("spill_bundles", "The same in bundles.", spill.bundles)
            yield _gauge("spill_bytes_max", "Beyond it, clients that publish are held back.", spill.bytes_max)
            yield _counter("spilled_bytes", "Brought to disk, in this life of the broker.", spill.spilled)
            yield _counter("spill_refused", "How often there was no room on disk, or it took nothing.", spill.refused)
        journal = books.journal()
        if not isinstance(journal, type(UNSET)):
            disk = GaugeMetricFamily("resprout_journal_bytes", "On disk.", labels=["journal"])
            disk.add_metric(["records"], journal.bytes)
            if isinstance(journal.event_bytes, int):
                disk.add_metric(["events"], journal.event_bytes)
            yield disk
        yield from self._stores()
        yield from self._mqtt()

    def _mqtt(self) -> Iterator[Metric]:
        if self._books.mqtt is None:
            return
        told = self._books.mqtt.account()
        yield _gauge("mqtt_sessions", "Sessions of MQTT clients, with or without a connection.", told.sessions)
        yield _gauge("mqtt_connections", "Open connections of MQTT clients.", told.connections)
        yield _counter("mqtt_connects", "Connections of MQTT clients that were opened.", told.connected)
        yield _counter("mqtt_refused", "MQTT clients that were turned away, or broke the protocol.", told.refused)
        yield _counter("mqtt_packets_received", "Packets of MQTT clients.", told.packets_received)
        yield _counter("mqtt_packets_sent", "Packets to MQTT clients.", told.packets_sent)
        yield _counter("mqtt_bytes_received", "Bytes of MQTT clients, TLS and WebSocket aside.", told.bytes_received)
        yield _counter("mqtt_bytes_sent", "Bytes to MQTT clients, TLS and WebSocket aside.", told.bytes_sent)
        yield _counter("mqtt_publications", "Publications of MQTT clients.", told.publications)
        yield _counter("mqtt_deliveries", "Messages that were given to MQTT clients.", told.deliveries)
        yield _gauge("mqtt_retained", "Retained messages of the network.", told.retained)
        yield _gauge("mqtt_retained_bytes", "Bytes of these.", told.retained_bytes)

    def _stores(self) -> Iterator[Metric]:
        free = GaugeMetricFamily("resprout_disk_free_bytes", "Room for what it writes.", labels=["store"])
        state = GaugeMetricFamily("resprout_disk_state", "0: ok, 1: low, 2: full.", labels=["store"])
        failures = CounterMetricFamily("resprout_disk_write_failures", "Writes that failed.", labels=["store"])
        stores = self._books.stores()
        for store in stores:
            free.add_metric([store.name], store.free_bytes)
            state.add_metric([store.name], _STATES.index(store.state))
            failures.add_metric([store.name], store.failures)
        if stores:
            yield from (free, state, failures)
            lost = sum(store.not_kept for store in stores)
            yield _counter("events_not_kept", "Bundles that were left out: the disk was full.", lost)

    def _trouble(self) -> Iterator[Metric]:
        books = self._books
        yield _counter("suspicions", "How often a peer was not heard.", books.kinds["suspect"])
        yield _counter("repairs", "Repairs that ended here.", books.kinds["repair_end"])
        notes = CounterMetricFamily("resprout_notes", "Lines of the log.", labels=["kind"])
        for kind in dict.fromkeys((*_KINDS_FIRST, *sorted(books.kinds))):
            notes.add_metric([kind], books.kinds[kind])
        yield notes
        refusals = CounterMetricFamily(
            "resprout_refusals", "Who was turned away, or refused something.", labels=["reason"]
        )
        by_code: Counter[str] = Counter()
        for reason, count in books.refusals().items():
            by_code[refusal_code(reason)] += count
        for code, count in sorted(by_code.items()):
            refusals.add_metric([code], count)
        yield refusals
        tally = books.tally
        yield _counter("publications_refused", "Told so to clients in a session.", tally.refused_publications)
        yield _counter("subscriptions_refused", "Told so to clients in a session.", tally.refused_subscriptions)


class Metrics:
    def __init__(self, collector: Collector) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(collector)
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """In the form that is asked for, and what that is called."""
        encode, kind = choose_encoder(accept)
        return _escaped_labels(encode(self._registry).decode()).encode(), kind


def refusal_code(reason: str) -> str:
    return next((code for part, code in REFUSAL_CODES if part in reason), "other")


def _escaped_labels(text: str) -> str:
    """Labels are the only text that is not ours. The format wants each backslash twice."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        letter if letter == "\n" or letter.isprintable() else escape(letter, keep="").replace("\\", "\\\\")
        for letter in text
    )


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"resprout_{name}", text, value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"resprout_{name}", text, value)


def _buckets(latency: LatencyCounts) -> list[tuple[str, float]]:
    total, rows = 0, []
    for place, count in enumerate(latency.counts):
        total += count
        bound = f"{BOUNDS_US[place] / 1e6:g}" if place < len(BOUNDS_US) else "+Inf"
        rows.append((bound, float(total)))
    return rows
