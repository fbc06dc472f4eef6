"""The kinds of rows, and which columns each one fills. `time_us` and `node` are always there.

`node` is who observed it: the client for what clients ask and get, the node itself for what happens to a node. Stacks
may add kinds of their own (`core.contract.Note`); whoever reads a trace skips the kinds it does not know.

*Identity* below means `publisher, incarnation, stream, seq`.
"""

from typing import Final

# what clients ask and get

PUBLISH: Final = "publish"
"""A client calls publish. Identity, `topic, keys, guarantee, attributes, payload_bytes`; `node` is the publisher."""

RECEIPT: Final = "receipt"
"""A publisher is told how far a publication has come. Identity and `receipt`: accepted, safe, delivered, or failed,
which is indefinite: the publication may still be delivered. One row per publication."""

DELIVER: Final = "deliver"
"""A subscriber's code gets a message. Identity, `topic, keys, guarantee, position`; `tseq` for a total where the run
claims an order; `hops, metadata_bytes, payload_bytes`."""

DROPPED: Final = "dropped"
"""A subscriber is told that a message will not be delivered: too much was unread, and it asks to have the oldest
dropped. Identity. One row per message."""

EXPIRED: Final = "expired"
"""A message came to a subscriber, or to a consumer of a durable subscription, and is not delivered, because it has
expired. Identity. One row per message."""

SUBSCRIBE: Final = "subscribe"
"""A client asks for a subscription: `filter`, and `where` when it has a condition; `drop_oldest` in the attributes
where its broker may drop what it does not read, `retained` where it begins with last values."""

SUBSCRIBED: Final = "subscribed"
"""The subscription is confirmed: from here on nothing that matches is missed. `filter, where`."""

UNSUBSCRIBE: Final = "unsubscribe"
"""A client asks to end a subscription. `filter, where`."""

UNSUBSCRIBED: Final = "unsubscribed"
"""The subscription is over: nothing of it comes after this. `filter, where`."""

REFUSED: Final = "refused"
"""A request was not done and never will be: definite. Identity for a publication, `filter, where` for a subscription;
`detail` says why."""

SESSION_LOST: Final = "session_lost"
"""A client is told that its session could not be carried on: deliveries may be missing. What was confirmed to it counts
as asked for again from here on, and is owed anew when it is confirmed again. `detail` says why."""

APPLIED: Final = "applied"
"""A replica of the bank has executed an operation. Identity of the operation; `attributes` holds `outcome` ('ok' or
'refused') and, for each account it touched, `topic|key` with the balance after it."""

# last values

VALUE: Final = "value"
"""A subscription begins with the last value of a topic. Identity, `topic, tseq, filter, where, payload_bytes`; `tseq`
is the revision, and the filter and condition are those of the subscription."""
VALUES_AGAIN: Final = "values_again"
"""A subscription is asked for again at another broker, and all last values come again. `filter, where`."""
VALUES_ASKED: Final = "values_asked"
"""A client reads last values: `filter`."""
VALUES_READ: Final = "values_read"
"""It gets them: `filter`; `tseq`, the place of the last retained publication that they include; in the attributes, by
topic, the revision, publisher, incarnation and number of the value, separated by spaces."""
OUTCOME: Final = "outcome"
"""A client is told what became of a write to a key. Identity, `tseq`, the place of the write, if the broker knows it;
`applied` (yes or no) and `current` (the revision of the key behind the write; 0: none) in the attributes."""

# consumers of durable subscriptions; the name of the subscription is `durable` in the attributes of each row

CONSUME: Final = "consume"
"""A client begins to consume a durable subscription: `filter, where`; `group` in the attributes where it is shared,
`drop_oldest` where its broker may drop what waits; `max_deliver`, and `ack_wait` in microseconds, where it has them."""
CONSUMING: Final = "consuming"
"""It is confirmed: from the first of these on nothing that matches is missed. `filter, where`."""
HANDED: Final = "handed"
"""A consumer is handed a message. As `deliver`; `redelivered` in the attributes where it may have been handed out
before, `deliveries` where that is known to have happened: how often, this time included."""
DROPS_TOLD: Final = "drops_told"
"""A consumer is told of dropped messages: `dropped` in the attributes, how many of the subscription were dropped so
far."""
ACKNOWLEDGED: Final = "acknowledged"
"""A consumer has processed it. Identity. `follow_up` in the attributes where it was told that its follow-up is
published."""
REJECTED: Final = "rejected"
"""A consumer wants a message to be handed out again. Identity."""
TERMINATED: Final = "terminated"
"""A consumer asks that a message is never handed out again. Identity."""
DEAD_LETTER: Final = "dead_letter"
"""A broker publishes the dead letter of a message. Identity, `topic, guarantee` and `attributes` of the dead letter;
`dead_subscription`, `dead_id` and `dead_deliveries` in the attributes name the message. It comes again, with the same
identity, where another broker does not know whether the first was stored."""
FOLLOW_UP: Final = "follow_up"
"""A broker publishes the follow-up of a message for a consumer. As `dead_letter`; `follow_subscription` and `follow_id`
in the attributes name the message."""
CONSUME_OVER: Final = "consume_over"
"""It consumes no longer, or was refused. `detail` says why."""

MQTT_CONNECTED: Final = "mqtt_connected"
"""A broker accepts the connection of an MQTT client: `session` in the attributes, `new` or `present`. The subscriptions
of its session are durable subscriptions in the trace, and each connection is a consumer; `qos` in the attributes of
`handed`."""

# logs; the name of the log is `log` in the attributes of each row

LOG_DECLARED: Final = "log_declared"
"""One row for each log, at the beginning: `filter`; `replicas` in the attributes, separated by spaces; `grace` of a log
that is compacted, the age in microseconds at which it drops tombstones."""
LOG_FED: Final = "log_fed"
"""A broker begins to feed a log. The log keeps what is published after the first of these rows."""
LOG_KEPT: Final = "log_kept"
"""One row for each message on the disk of a replica, at the end: identity, `topic, keys, guarantee, payload_bytes`,
`tseq` of a total, `position` (the offset); `crc` of its payload and attributes in the attributes."""
LOG_GAP: Final = "log_gap"
"""One row for each gap mark on the disk of a replica, at the end: `position`; the reason in `detail`."""
LOG_END: Final = "log_end"
"""One row for each replica with a disk, at the end: `first` and `end` in the attributes, the range of offsets; `runs`
if its broker runs; `compacted` of a log that is compacted, the offset behind its compacted part."""
LOG_COMPACTED: Final = "log_compacted"
"""A replica drops a message by compaction. Columns as for `log_kept`; in the attributes `at`, the time of its entry,
`until`, the time of the last entry that is compacted with it, and `empty` if its payload is empty. It comes again from
each replica, and where a crash has undone the compaction."""
LOG_READ: Final = "log_read"
"""A client has read a message of a log. Columns as for `log_kept`."""
LOG_PAGE: Final = "log_page"
"""A client has read a page: `filter`; `from` and `until` in the attributes, the range of offsets."""

# what happens to nodes and links

CRASH: Final = "crash"
RECOVER: Final = "recover"
"""A crashed node is back with nothing but what it had persisted; a client is back as a new incarnation."""
FREEZE: Final = "freeze"
UNFREEZE: Final = "unfreeze"
HANG: Final = "hang"
"""A broker keeps its connections and answers nothing."""
UNHANG: Final = "unhang"
DISK_LOW: Final = "disk_low"
"""There is little room left on the disk of a broker."""
DISK_FULL: Final = "disk_full"
DISK_FREE: Final = "disk_free"
UNRESOLVE: Final = "unresolve"
"""The name of a broker does not resolve."""
RESOLVE: Final = "resolve"
JOIN: Final = "join"
DOUBLE: Final = "double"
"""A second broker starts under the name in `detail`, which somebody has; `node` is how the run tells it apart."""
LEAVE: Final = "leave"
CUT: Final = "cut"
"""The link between `node` and the node in `detail` carries nothing any more."""
HEAL: Final = "heal"
PARTITION: Final = "partition"
SUSPECT: Final = "suspect"
REPAIR_BEGIN: Final = "repair_begin"
REPAIR_END: Final = "repair_end"

# how the run ended, and the rest

QUIESCENT: Final = "quiescent"
"""Nothing is under way any more: what has not been delivered by now is lost."""
TIMEOUT: Final = "timeout"
"""The time limit came first: loss cannot be judged."""
LOAD: Final = "load"
"""What a node sent and received in the run: `attributes` holds `frames_sent`, `frames_received`, `bytes_sent`,
`bytes_received`, `busy_us` (how long its network card was sending), `paper_bytes`, `paper_bytes_max` and
`paper_messages` (headers by the formula of a paper) as far as they are known, and `sent:TYPE` for each type of message,
counts without quotes. At most one row per node, before the row that ends the run."""
SENT: Final = "sent:"
COUNTS: Final = "counts"
"""Of a run that records counts only, in place of the rows of its clients, at its end: see `trace.summary`. One row for
each `guarantee`, one without for the rest; `attributes` hold the counts. Such a run cannot be judged."""
NOTE: Final = "note"
"""For people; `detail` holds the text."""

EMPTY_DISK: Final = "empty disk"
ANEW: Final = "begins the network anew"
"""In the detail of a `recover`."""


def recovery(disk: bool, found: bool) -> str | None:
    """The detail of a `recover`."""
    words = [*([] if disk else [EMPTY_DISK]), *([ANEW] if found else [])]
    return ", ".join(words) or None
