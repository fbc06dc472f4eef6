"""Dead letters of the durable subscriptions that live here: messages that were given up (`edge.broker.retries`).

A dead letter is a publication of its own, on the topic that the subscription names, with the payload and the attributes
of the message, and attributes that say where it comes from. It is `eventual`: it has no order with anything. It has no
`message_id`, so that its replay is no repeat of the message.

The message counts as done when its dead letter is safe. If the home dies before that, the next home publishes the dead
letter again. Both have the same id, made from the subscription and the id of the message, so brokers drop the second as
a repeat: there is exactly one.

The home keeps dead letters in a durable group of its own, `store_name`, which it begins together with the subscription.
"""

from hashlib import sha256
from typing import Final

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads, unpack_attributes, unpack_payloads, whole
from resprout.core.errors import WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import ATTRIBUTES_PER_MESSAGE, BUNDLE_BYTES, DEAD_LETTER, NAME_BYTES, AttributeValue
from resprout.core.message import MessageId
from resprout.core.seen import Seen
from resprout.core.timing import DUE, EXPIRES, MESSAGE_ID
from resprout.edge.broker.consumers import Consumers, HeldDurable
from resprout.edge.broker.retries import DeadMessage
from resprout.edge.durable_messages import Terms, WhenFull
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.stacks.resprout.delivering import Delivering
from resprout.stacks.resprout.durable_state import DurableState
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.served_clients import ServedClients

SUFFIX: Final = ".dead"
UNSAFE_MAX: Final = 1_000
"""Dead letters of one subscription that are on their way to other brokers."""
UNSAFE_BYTES: Final = 4 << 20
"""Their bytes, and one more."""
EARLIER_HOME: Final = "it came back too often"
"""The reason where an earlier home knew more."""


def store_name(subscription: str) -> str:
    """Return the name of the durable group that keeps the dead letters of a subscription."""
    return f"{subscription}{SUFFIX}"


def store_terms(terms: Terms) -> Terms:
    assert terms.retry is not None, "it has dead letters"
    policy = WhenFull.SPILL if terms.when_full is WhenFull.SPILL else WhenFull.BLOCK
    return Terms(terms.retry.topic, None, True, policy)


def fault_of_name(subscription: str) -> str:
    """Why the subscription cannot have dead letters; empty when it can."""
    name = store_name(subscription)
    return f"{name!r}, which keeps its dead letters, is too long a name" if len(name) > NAME_BYTES else ""


def fault_of_store(store: DurableState | None, terms: Terms, identity: str) -> str:
    """Why dead letters of a new subscription would not be kept for its owner; empty if they would. `store`: what has
    the name of the group that keeps them. Somebody else may have begun it first."""
    if store is None or store.over:
        return ""
    if store.owner in ("", identity) and store.terms.filter == store_terms(terms).filter:
        return ""
    return f"{store.subscription!r}, which would keep its dead letters, is there already, and is something else"


class DeadLetters:
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

    def look(self, held: HeldDurable) -> None:
        """Publish dead letters of a subscription, and count as done what has a safe one."""
        dead = held.queue.retries.dead
        if not dead:
            return
        for each in list(dead.values()):
            if isinstance(each.letter, Entry) and each.letter.shown:
                self._is_safe(held, each)
        if not self._may_publish():
            return
        under_way = [each for each in dead.values() if each.letter is not None]
        left, room = UNSAFE_MAX - len(under_way), UNSAFE_BYTES - sum([each.portion.bytes for each in under_way])
        for each in [each for each in dead.values() if each.letter is None][: max(left, 0)]:
            if room <= 0:
                break
            room -= each.portion.bytes
            self._publish(held, each)
        self._delivering.show()  # a broker that is alone has at once as many copies as there can be

    def _may_publish(self) -> bool:
        life = self._life
        return self._served.serving and life.attached and life.goes_on and not (life.leaving or life.retired)

    def _is_safe(self, held: HeldDurable, dead: DeadMessage) -> None:
        held.queue.dead_letter_is_safe(dead)
        held.queue.retries.dead_letters += 1
        self._consumers.waking[held.queue.session.name] = held.queue.session

    def _publish(self, held: HeldDurable, dead: DeadMessage) -> None:
        bundle, attributes = _letter(held, dead, self._clock.stamp_after(0))
        if self._seen.has(bundle):  # an earlier home has published it, and it came here
            self._is_safe(held, dead)
            return
        self._life.note(
            "dead_letter", f"{held.name}: {dead.reason or EARLIER_HOME}", publisher=bundle.publisher,
            incarnation=bundle.incarnation, stream=bundle.stream, seq=bundle.first, topic=bundle.topic, keys=(),
            guarantee=bundle.guarantee.label, attributes=attributes,
        )  # fmt: skip
        dead.letter = self._forwarding.accept(bundle, None, None, 0, False)


def _letter(held: HeldDurable, dead: DeadMessage, stamp: int) -> tuple[Bundle, dict[str, AttributeValue]]:
    policy = held.terms.retry
    assert policy is not None, "otherwise nothing is given up"
    bundle, offset = whole(dead.portion.bundle), dead.portion.offsets[0]
    about: dict[str, AttributeValue] = {
        "dead_topic": bundle.topic,
        "dead_id": str(MessageId(bundle.publisher, bundle.incarnation, bundle.stream, bundle.first + offset)),
        "dead_subscription": held.name,
        "dead_deliveries": dead.portion.tries,
        "dead_reason": dead.reason or EARLIER_HOME,
    }
    if dead.consumer:
        about["dead_consumer"] = dead.consumer
    try:
        payload, row = unpack_payloads(bundle)[offset], unpack_attributes(bundle)[offset]
    except WireError:
        payload, row = b"", {}
        about["dead_reason"] = "it cannot be read"
    kept = [(name, row[name]) for name in row if name not in about and name not in (DUE, EXPIRES, MESSAGE_ID)][
        : ATTRIBUTES_PER_MESSAGE - len(about)
    ]
    attributes = {**dict(kept), **about}
    column, payloads = pack_attributes([attributes]), pack_payloads([payload])
    if len(column) + len(payloads) > max(BUNDLE_BYTES, bundle.cost):
        attributes, column = about, pack_attributes([about])
    digest = sha256(f"{held.name}/{about['dead_id']}".encode()).digest()
    publisher, life = f"{DEAD_LETTER}{digest[:8].hex()}", 1 + (int.from_bytes(digest[8:12], "big") >> 2)
    letter = Bundle(publisher, life, 1, 1, stamp, policy.topic, (), Guarantee.EVENTUAL, column, payloads)
    return letter, attributes
