"""Follow-ups: publications that consumers make of a message, together with its acknowledgement, exactly once.

The broker that holds the subscription publishes the follow-up, and counts the message as done when the follow-up is
safe. Until then no consumer is handed the message, whatever becomes of the one that had it.

If this broker dies before others know that the message is done, the next one may hand out the message again, and a
consumer may make another follow-up of it. Both have the same id, made from the subscription and the id of the message,
so brokers drop the second as a repeat: every subscriber, durable subscription and log gets exactly one. A dead letter
is unique in the same way (`dead_letters`).
"""

from hashlib import sha256
from typing import Final

from resprout.core.bundle import Bundle, Origin, unpack_attributes, unpack_payloads
from resprout.core.contract import Send
from resprout.core.errors import BoundError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import FOLLOW_UP
from resprout.core.message import MessageId
from resprout.core.seen import Seen
from resprout.edge.broker.consumers import Consumers, HeldDurable
from resprout.edge.broker.portion import Portion
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import FOLLOW_UPS_MAX, FollowedUp, FollowUp, Span
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.stacks.resprout.delivering import Delivering
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.served_clients import ServedClients
from resprout.values.rows import RETAIN_KEY
from resprout.wire.bundles import check_columns

SETTLED: Final = "the message was acknowledged before, or given up, without a follow-up"
UNKNOWN: Final = "the broker of the subscription does not have the message"
UNKNOWN_LEASES: Final = 8
"""So long a broker waits for a message that it does not have. After a repair, it may come later than its consumer."""


class Step:
    """One follow-up that is not safe."""

    __slots__ = ("bundle", "entry", "portion", "since_us", "waiting")

    def __init__(self, bundle: Bundle, consumer: str, now_us: int) -> None:
        self.bundle = bundle
        self.since_us = now_us
        self.waiting = {consumer}
        """Consumers to be told."""
        self.portion: Portion | None = None
        """The message; None until it has come here."""
        self.entry: Entry | None = None
        """In the log, once it is published."""


Steps = dict[tuple[Origin, int], Step]
"""By the message."""


class FollowUps:
    def __init__(
        self,
        life: BrokerLife,
        clock: Clock,
        seen: Seen,
        delivering: Delivering,
        forwarding: Forwarding,
        served: ServedClients,
        consumers: Consumers,
    ) -> None:
        self._life = life
        self._clock = clock
        self._seen = seen
        self._delivering = delivering
        self._forwarding = forwarding
        self._served = served
        self._consumers = consumers

    def follow(self, session: ClientSession, message: FollowUp) -> None:
        """A consumer makes a follow-up of a message that it was handed."""
        held = self._consumers.of(session.name)
        if held is None:
            return  # it was fenced off, and has not heard
        span, bundle, queue = message.span, message.bundle, held.queue
        _check(message, self._life.options.honest_payload)
        queue.retries.now_us = self._life.now_us
        queue.fill()
        key = (span.origin, span.first)
        step = held.steps.get(key)
        if queue.is_done(*key) or queue.is_dead(*key):
            self._life.out.append(Send(session.name, FollowedUp(span, self._why_not(held, key))))
        elif max(map(len, unpack_payloads(bundle))) > self._life.options.max_payload:
            reason = f"a payload is larger than {self._life.options.max_payload} bytes (max_payload)"
            self._life.out.append(Send(session.name, FollowedUp(span, reason)))
        elif step is not None:
            step.waiting.add(session.name)
        else:
            if sum([session.name in each.waiting for each in held.steps.values()]) >= FOLLOW_UPS_MAX:
                raise BoundError(f"more than {FOLLOW_UPS_MAX} follow-ups at once")
            held.steps[key] = Step(bundle, session.name, self._life.now_us)
            self.look(held)

    def look(self, held: HeldDurable) -> None:
        """Publish what can be published."""
        life = self._life
        if not (self._served.serving and life.attached and life.goes_on) or life.leaving or life.retired:
            return
        unpublished: list[tuple[tuple[Origin, int], Step]] = [each for each in held.steps.items() if not each[1].entry]
        for key, step in unpublished:
            if step.portion is None:
                step.portion = held.queue.set_aside(step.waiting, _span(key))
            if step.portion is not None:
                self._publish(held, key, step)
            elif self._seen.mark(_origin(held, key)):
                for name in step.waiting:  # it may come yet, from a broker that does not know that it is done
                    held.queue.acknowledge(name, _span(key))
                self._answer(held, key, "")
            elif held.queue.is_done(*key) or held.queue.is_dead(*key):
                self._answer(held, key, SETTLED)
            elif step.waiting.isdisjoint(held.queue.consumers):
                del held.steps[key]
            elif life.now_us - step.since_us >= UNKNOWN_LEASES * life.options.lease_us:
                self._answer(held, key, UNKNOWN)
        self._delivering.show()  # a broker that is alone has at once as many copies as there can be
        self._consumers.waking[held.queue.session.name] = held.queue.session

    def _publish(self, held: HeldDurable, key: tuple[Origin, int], step: Step) -> None:
        id, bundle = _id(key), _derived(held, key, step.bundle, self._clock.stamp_after(0))
        if self._seen.has(bundle):  # an earlier home has published it, and it came here
            self._is_safe(held, key)
            return
        self._life.note(
            "follow_up", f"{held.name}: of {id}", publisher=bundle.publisher, incarnation=bundle.incarnation,
            stream=bundle.stream, seq=bundle.first, topic=bundle.topic, keys=bundle.keys,
            guarantee=bundle.guarantee.label,
            attributes={**unpack_attributes(bundle)[0], "follow_subscription": held.name, "follow_id": id},
        )  # fmt: skip
        step.entry = self._forwarding.accept(bundle, None, None, 0, False)
        assert step.entry is not None, "it was not known"
        self._delivering.watch(step.entry, lambda: self._is_safe(held, key))

    def _why_not(self, held: HeldDurable, key: tuple[Origin, int]) -> str:
        """Return why a message that is done, or dead, has no follow-up; empty if it has one."""
        return "" if self._seen.mark(_origin(held, key)) else SETTLED

    def _is_safe(self, held: HeldDurable, key: tuple[Origin, int]) -> None:
        step = held.steps.get(key)
        if step is None or self._consumers.held.get(held.name) is not held:
            return  # another broker has the subscription, and hears of it again
        if step.portion is not None:
            held.queue.is_followed(step.portion)
        held.follow_ups += 1
        self._answer(held, key, "")
        self._consumers.waking[held.queue.session.name] = held.queue.session

    def _answer(self, held: HeldDurable, key: tuple[Origin, int], reason: str) -> None:
        told, waiting = FollowedUp(_span(key), reason), held.steps.pop(key).waiting
        self._life.out.extend([Send(name, told) for name in sorted(waiting) if name in held.queue.consumers])


def _span(key: tuple[Origin, int]) -> Span:
    (publisher, stream, incarnation), seq = key
    return Span(publisher, stream, incarnation, seq, seq)


def _check(message: FollowUp, payload_max: int) -> None:
    bundle, span = message.bundle, message.span
    if not 0 < span.first == span.last:
        raise BoundError(f"a follow-up of publications {span.first} to {span.last}")
    if bundle.count != 1 or bundle.guarantee is not Guarantee.EVENTUAL or RETAIN_KEY in bundle.keys:
        raise BoundError("a follow-up that is none")
    check_columns(bundle, payload_max)


def _id(key: tuple[Origin, int]) -> str:
    (publisher, stream, incarnation), seq = key
    return str(MessageId(publisher, incarnation, stream, seq))


def _origin(held: HeldDurable, key: tuple[Origin, int]) -> Origin:
    """Return the origin of the follow-up of a message, which is the only publication of that origin."""
    digest = sha256(f"{held.name}/{_id(key)}/follow-up".encode()).digest()
    life = 1 + (int.from_bytes(digest[8:12], "big") >> 2)
    return (f"{FOLLOW_UP}{digest[:8].hex()}", Guarantee.EVENTUAL.stream, life)


def _derived(held: HeldDurable, key: tuple[Origin, int], bundle: Bundle, stamp: int) -> Bundle:
    publisher, _, life = _origin(held, key)
    return Bundle(
        publisher, life, 1, 1, stamp, bundle.topic, bundle.keys, Guarantee.EVENTUAL, bundle.attributes, bundle.payloads
    )
