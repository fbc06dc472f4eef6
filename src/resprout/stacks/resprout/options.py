"""What can be set about the default stack."""

from typing import Annotated, Final, Literal

import msgspec

from resprout.core import limits

PAYLOADS_IN_ROOM: Final = 4
"""Payloads of `max_payload` that fit into the log of a neighbour or of all clients, and into the share of a reader."""


class ResproutOptions(msgspec.Struct, frozen=True):
    faults_tolerated: Annotated[int, msgspec.Meta(ge=0, le=8)] = 1
    """f: how many brokers on any path of 2f + 1 may be down at once."""
    total_degree: Annotated[int, msgspec.Meta(ge=2)] = 1_000
    """Neighbours that a broker may have, its parent included. A repair may exceed it for a while. At least 2: with
    fewer, nobody below the root could take anybody in."""
    ack_delay_us: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """How long an acknowledgement may wait for company. What a publisher waits for never waits here; what nobody waits
    for may be later by this much per hop."""
    log_bytes: Annotated[int, msgspec.Meta(ge=4096)] = 64 << 20
    """Bytes of one neighbour's bundles that may wait here for other links, and bytes of all local publications that may
    wait to become safe or for a link, before their senders are held back. Local publishers share the latter: one that
    uses more than its fair share is held first. A session's window of what is already on its way comes on top."""
    max_payload: Annotated[int, msgspec.Meta(ge=4096, le=limits.PAYLOAD_BYTES_MAX)] = limits.PAYLOAD_BYTES
    """Bytes that one payload may have, announced to clients when they connect. All brokers of a network have the same;
    one with another limit is refused. Above 1 MiB, `log_bytes` and `subscriber_bytes` are at least four times this."""
    subscriber_bytes: Annotated[int, msgspec.Meta(ge=4096)] = 64 << 20
    """Bytes that one subscriber, or one durable subscription, may have unread. Beyond that its `when_full` decides: its
    session ends, the oldest messages are dropped, or publishers of its topics wait."""
    slow_consumer_us: Annotated[int, msgspec.Meta(ge=1_000)] = 2_000_000
    """A subscriber with a full share is cut off (`when_full = disconnect`) if it has not taken a sixteenth of its share
    for this long. Until then publishers of its topics wait for it."""
    spill_bytes: Annotated[int, msgspec.Meta(ge=0)] = 256 << 20
    """What may be on disk of what waits for durable subscriptions that spill, and of copies of it kept for others. When
    that is full, publishers of their topics are held back. A repair beside it brings all of it into memory
    once. 0: nothing is spilled, and no such subscription begins here."""
    retained_bytes: Annotated[int, msgspec.Meta(ge=0)] = 64 << 20
    """Bytes of memory that last values of topics may take at every broker. This broker refuses retained publications
    of its clients beyond that."""
    retained_topics: Annotated[int, msgspec.Meta(ge=0)] = 100_000
    """Topics that may have a last value; refused alike."""
    root_ordered_after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """After how many totals on a topic the root orders all its ordered publications with keys, so that its totals go
    only where they are read. Those totals cost and take little more than other publications then; `fifo` and `causal`
    publications with keys of the topic go by way of the root. 0: never, and every broker takes part in every total.
    Needs `faults_tolerated` of 0 or 1. It counts at the root, so all brokers should have the same."""
    message_id_us: Annotated[int, msgspec.Meta(ge=0, le=3_600_000_000)] = 120_000_000
    """How long a durable subscription that is held here recognises a repeat of a message by its topic and `message_id`.
    It remembers up to 40,000 ids, and so does every broker for it. 0: repeats are delivered."""
    heartbeat_us: Annotated[int, msgspec.Meta(ge=1_000)] = 500_000
    """How often a broker tells its parent that it lives."""
    lease_us: Annotated[int, msgspec.Meta(ge=4_000)] = 3_000_000
    """How long a broker may be silent before it can be declared dead. Several heartbeats; shorter repairs a frozen
    broker sooner and a slow one in vain. A process whose own host says that it is gone is not waited for."""
    ghost_us: Annotated[int, msgspec.Meta(ge=0)] = 30_000_000
    """How long everything is kept for the clients of a dead broker that have not found another."""
    durable: bool | Literal["journal"] = False
    """True: keep on disk what local clients published until it is safe elsewhere, and publish it again after a restart.
    "journal": keep the whole log on disk, so that what is safe is on disk at f + 1 brokers, and survives the end of
    all of them."""

    @property
    def log_room(self) -> int:
        """`log_bytes`, or more where payloads may be large."""
        return max(self.log_bytes, self._least_room)

    @property
    def subscriber_room(self) -> int:
        """`subscriber_bytes`, or more where payloads may be large."""
        return max(self.subscriber_bytes, self._least_room)

    @property
    def honest_payload(self) -> int:
        """Bytes of a payload that no client of a network exceeds: a larger one ends the session of its publisher."""
        return max(self.max_payload, limits.PAYLOAD_BYTES)

    @property
    def _least_room(self) -> int:
        """Room for several of the largest payloads. With room for one only, those who publish or read it look slow."""
        return PAYLOADS_IN_ROOM * self.max_payload if self.max_payload > limits.PAYLOAD_BYTES else 0
