"""What a client publishes: its numbers, what still waits to leave, what has left and is not safe, and its receipts.

Receipts never go back, whichever broker tells them. `accepted` and `safe` come in the order of a stream, so they are
watermarks. `delivered` may leave out a publication that somebody has not read, and go on behind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from resprout.core import limits
from resprout.core.contract import Answer, Effect
from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import STREAMS, Guarantee, GuaranteeName, ReceiptLevel, check_offered
from resprout.core.limits import AttributeValue, check_attributes, check_keys, check_payload, check_topic
from resprout.core.message_fields import NUMBER_MAX
from resprout.core.seen import Ranges
from resprout.edge.client.options import ClientOptions
from resprout.edge.client.outgoing import Outgoing, Unconfirmed
from resprout.edge.messages import PublicationWaits, Publish, PublishRefused, SafeCopies, Serving, StreamMark, Turned
from resprout.edge.requests import (
    CopiesCounted,
    Published,
    PublishRequest,
    ReceiptTurned,
    ReceiptWaits,
    Refused,
    RoomAgain,
)

_NOTHING: Final[dict[str, AttributeValue]] = {}
NO_ATTRIBUTES: Final[Mapping[str, AttributeValue]] = _NOTHING
"""An empty mapping that need not be checked."""

_UP_TO: Final = tuple([tuple(ReceiptLevel)[: level + 1] for level in ReceiptLevel])
"""By receipt level: that level, and those that it includes."""

TARGETS_KEPT: Final = 10_000
"""Checked combinations of topic, guarantee and keys that are remembered."""


class Target:
    """A checked topic, offered guarantee and checked keys."""

    __slots__ = ("guarantee", "keys", "stream", "topic")

    def __init__(self, topic: str, guarantee: Guarantee, keys: tuple[str, ...]) -> None:
        self.topic = topic
        self.guarantee = guarantee
        self.keys = keys
        self.stream = guarantee.stream


class Publishing:
    """The publications of one client: numbers, bundles that wait or are not safe, and receipts."""

    def __init__(self, name: str, incarnation: int, options: ClientOptions) -> None:
        self.outgoing = Outgoing(name, incarnation, options.bundle_max, joins=not options.returns)
        self.unconfirmed = Unconfirmed()
        self._options = options
        self._serving: Serving | None = None
        self._payload_max = limits.PAYLOAD_BYTES
        self._targets: dict[tuple[str, Any, Any], Target] = {}
        self.pausing = False
        """Whether the program was told to pause, because too much waits."""
        self._turned = {stream: tuple([Ranges() for _ in ReceiptLevel]) for stream in STREAMS}
        """By stream and level: the numbers that have reached it."""
        self._made_elsewhere = dict.fromkeys(STREAMS, NUMBER_MAX if options.returns else 0)
        """By stream: publications up to this number may have been made through another broker, or by an earlier
        process."""
        self._counted: dict[str, None] = {}
        """Streams for which this broker has said how many copies `safe` means."""

    # -- asking --------------------------------------------------------------------------------------------------------

    def offered(self, serving: Serving) -> None:
        """Set what the network offers, from now on."""
        if self._serving is None or self._serving.guarantees != serving.guarantees:
            self._targets.clear()
        self._serving = serving
        self._payload_max = min(serving.max_payload, limits.PAYLOAD_BYTES_MAX)
        self.outgoing.bundle_bytes_max = limits.bundle_bytes(self._payload_max)

    def target(self, topic: str, guarantee: GuaranteeName | Guarantee, keys: Sequence[str]) -> Target:
        """Check a topic, a guarantee and keys. Raises UsageError for what cannot be published. Called once a broker
        has said `Serving`."""
        if type(keys) is not tuple and type(keys) is not list:
            keys = check_keys(keys)  # refuses a text, which is a sequence of letters
        key = (topic, guarantee, tuple(keys))
        try:
            target = self._targets.get(key)
        except TypeError:  # one of them is a list or the like: the checks say which
            check_topic(topic)
            check_keys(keys)
            Guarantee.parse(str(guarantee))
            raise
        if target is None:
            assert self._serving is not None, "nothing is published before it is known what is offered"
            wanted = guarantee if isinstance(guarantee, Guarantee) else Guarantee.parse(guarantee)
            check_offered(wanted, self._serving.guarantees, self._serving.stack)
            target = Target(check_topic(topic), wanted, check_keys(keys))
            if len(self._targets) >= TARGETS_KEPT:
                self._targets.clear()
            self._targets[key] = target
        return target

    def add(self, target: Target, payload: bytes, attributes: Mapping[str, AttributeValue]) -> int:
        """Add a publication and return its number in the stream. Raises UsageError, and takes no number."""
        payload = self.check_payload(payload)
        checked = _NOTHING if attributes is NO_ATTRIBUTES else check_attributes(attributes)
        return self.outgoing.add(target.topic, target.keys, target.guarantee, payload, checked)

    @property
    def payload_max(self) -> int:
        """Bytes that one payload may have, as the broker says."""
        return self._payload_max

    def check_payload(self, payload: bytes) -> bytes:
        """PayloadRefusedError for anything but bytes, and for more of them than the broker accepts."""
        return check_payload(payload, self._payload_max)

    def add_bundle(
        self, target: Target, payloads: Sequence[bytes], attributes: Sequence[Mapping[str, AttributeValue]] | None
    ) -> int:
        """Return the number of the last. The publications share a bundle that nothing joins. A client that may repeat
        them sends each in a bundle of its own, so that boundaries are the same in every attempt, unless the program
        promises that its own are. Raises UsageError, and no number is taken."""
        checked = [self.check_payload(payload) for payload in payloads]
        rows = [check_attributes(row) for row in attributes] if attributes is not None else None
        if rows is not None and len(rows) != len(checked):
            raise UsageError(f"attributes of {len(rows)} messages for {len(checked)} payloads")
        assert self._serving is not None, "a target is made once it is known what is offered"
        alone = self._options.returns and not (self._options.same_bundles and self._serving.splits)
        return self.outgoing.add_bundle(target.topic, target.keys, target.guarantee, checked, rows, alone)

    def publish(self, request: PublishRequest) -> Published:
        """For an application that cannot be made to pause: what is too much is refused, which is definite."""
        target = self.target(request.topic, request.guarantee, request.keys)
        waiting = self.outgoing.bytes_waiting + self.unconfirmed.bytes
        if waiting > self._options.queue_bytes_max:
            raise UsageError(f"{waiting} bytes wait to be published or to be safe; the network does not keep up")
        return Published(target.stream, self.add(target, request.payload, request.attributes))

    def next(self, clock: int, awaits: int) -> Publish | None:
        """Return the next bundle to send: first those that are sent again, then new ones."""
        publish = self.unconfirmed.next_again() if self.unconfirmed.again else None
        if publish is None:
            bundle = self.outgoing.next_bundle(clock)
            if bundle is None:
                return None
            publish = Publish(bundle, awaits)
            self.unconfirmed.add(publish)
        return publish

    # -- receipts ------------------------------------------------------------------------------------------------------

    def begin_session(self, faults_tolerated: int, out: list[Effect]) -> None:
        """Prepare for another broker: it will call safe what is not safe yet."""
        if not self._options.returns:
            self._made_elsewhere = {stream: self.outgoing.last(stream) for stream in STREAMS}
        for stream in self._counted:
            following = self._turned[stream][ReceiptLevel.SAFE].upto + 1
            out.append(Answer(CopiesCounted(stream, following, faults_tolerated + 1)))
        self._counted.clear()

    def safe_undelivered(self) -> tuple[StreamMark, ...]:
        """Return, by stream, up to where `safe` was told, if not all of that is delivered."""
        marks = [StreamMark(stream, turned[ReceiptLevel.SAFE].upto) for stream, turned in self._turned.items()]
        return tuple(mark for mark in marks if mark.last > self._turned[mark.stream][ReceiptLevel.DELIVERED].upto)

    def is_unsettled(self) -> bool:
        """Whether a publication that was made elsewhere, and sent again here, is not delivered."""
        return any(
            turned[ReceiptLevel.DELIVERED].upto < min(self.outgoing.last(stream), self._made_elsewhere[stream])
            for stream, turned in self._turned.items()
        )

    def count(self, message: SafeCopies, out: list[Effect]) -> None:
        if message.first > self._last_published(message.stream):
            return
        self._counted[message.stream] = None
        out.append(Answer(CopiesCounted(message.stream, message.first, message.copies)))

    def turn(self, message: Turned, out: list[Effect]) -> None:
        """Turn receipts; a level includes the weaker ones, which may not have been told. Numbers beyond what this
        client has published are ignored: a broker far away may have forged them."""
        upto = min(message.seq, self._last_published(message.stream))
        if message.first < 1:
            raise WireError(f"publications are numbered from 1, not {message.first}")
        if upto < message.first:
            return
        turned = self._turned[message.stream]
        for receipt in _UP_TO[message.receipt]:
            for first, last in turned[receipt].add(message.first, upto):
                out.append(Answer(ReceiptTurned(message.stream, receipt, first, last)))
        if message.receipt >= ReceiptLevel.SAFE:
            self.unconfirmed.confirm(message.stream, upto, message.first)
            if self.pausing:
                self.relieve(out)

    def waits(self, message: PublicationWaits, out: list[Effect]) -> None:
        """Tell the program why a publication waits, unless it is accepted by now."""
        self._check_published(message.stream, message.seq)
        if message.seq not in self._turned[message.stream][ReceiptLevel.ACCEPTED]:
            out.append(Answer(ReceiptWaits(message.stream, message.seq, message.reason)))

    def refuse(self, message: PublishRefused, out: list[Effect]) -> None:
        last = message.first + message.count - 1
        self._check_published(message.stream, last)
        if not 1 <= message.first <= last:
            raise WireError(f"{message.count} publications refused from {message.first} on")
        for reached in self._turned[message.stream]:  # those that are told up to a later one are not of these
            reached.add(message.first, last)
        self.unconfirmed.drop(message.stream, message.first, last)
        out.append(Answer(Refused(None, message.reason, True, message.stream, message.first, last)))
        self.relieve(out)

    def _check_published(self, stream: str, last: int) -> None:
        """Raise WireError if the broker speaks of a publication that this client never made."""
        if last > self._last_published(stream):
            raise WireError(f"{last} of the stream {stream!r} was never published")

    def _last_published(self, stream: str) -> int:
        """Return the last number of a stream; for a client with an `epoch`, the highest possible one: an earlier
        process may have published it."""
        if stream not in self._turned:
            raise WireError(f"nothing is published in a stream {stream!r}")
        return NUMBER_MAX if self._options.returns else self.outgoing.last(stream)

    # -- too much at once ----------------------------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """So much waits that a publisher who can should pause until `RoomAgain`."""
        options = self._options
        if (
            self.outgoing.bytes_waiting > options.queue_bytes_high
            or self.unconfirmed.bytes > options.unsafe_bytes_high
            or len(self.unconfirmed) > options.unsafe_bundles_high
        ):
            self.pausing = True
        return self.pausing

    def relieve(self, out: list[Effect]) -> None:
        """Let the program go on when half of what made it pause is gone."""
        if (
            self.pausing
            and self.outgoing.bytes_waiting <= self._options.queue_bytes_high // 2
            and self.unconfirmed.bytes <= self._options.unsafe_bytes_high // 2
            and len(self.unconfirmed) <= self._options.unsafe_bundles_high // 2
        ):
            self.pausing = False
            out.append(Answer(RoomAgain()))
