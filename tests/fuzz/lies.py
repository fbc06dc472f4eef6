"""What a liar says next: messages that its role may send, some that it may not, replays, and whole parcels.

Most messages are of kinds that the receiver takes from this role. A message of any other kind ends the session at once,
and teaches nothing new about what the receiver believes.
"""

import random
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal

import msgspec

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.edge.durable_messages import (
    Acknowledge,
    Consume,
    FollowUp,
    Handed,
    RetryTerms,
    Settle,
    Settlement,
    Span,
    Terms,
)
from resprout.edge.messages import AskAudience, Attend, DropsAcknowledged, Publish, Taken
from resprout.logs.messages import LOG_MESSAGES, LogsDeclared
from resprout.order.messages import Levels, Lock
from resprout.overlay.configurations import Whereabouts
from resprout.overlay.messages import (
    Decided,
    Enrol,
    Enrolled,
    Life,
    Namesake,
    Place,
    PreVote,
    Seek,
    Suspect,
    Vote,
    Voter,
)
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.spread.messages import Uninterested
from resprout.stacks.resprout import RESPROUT, ResproutOptions
from resprout.stacks.resprout.log_broker import LogBroker
from resprout.stacks.resprout.log_checks import check_log_message, check_replica_message
from resprout.stacks.resprout.messages import (
    PARCEL_ROWS,
    PARCELS,
    Attach,
    AttachRequest,
    ClientBegan,
    Grant,
    LastTotal,
    Leaving,
    Offer,
    ParcelEnd,
    ParcelRows,
    SeenMark,
    Stub,
    Welcome,
)
from resprout.stacks.resprout.repair.parcels import ROWS_OF
from resprout.stacks.stack import BrokerSeat
from tests.fuzz.grammar import Grammar
from tests.fuzz.stores import LOGS

Role = Literal["client", "member"]
ROLES: Final[tuple[Role, ...]] = ("client", "member")

IN_PARCELS: Final = frozenset({*PARCELS, ParcelRows, ParcelEnd})
OUT_OF_PLACE: Final = 0.03
"""Share of what is said where an honest broker never says it."""
FINAL_KEPT: Final = 0.1
"""Share of the messages that end the session by what they are (`Lies._is_final`) that are said all the same. A member
that was cut off joins again first: that took nine in ten steps when all of these were said."""
DRAWS_MAX: Final = 8
"""Until what was drawn is said, whatever it is."""
ROWS_OF_A_PARCEL: Final = 6
"""At most; a real one has one or more of nearly every kind."""


def _kinds_of_roles() -> dict[Role, tuple[type, ...]]:
    """By role: what a broker hears from it, as the broker's own tables say. Rows of parcels are said in parcels."""
    broker = LogBroker(BrokerSeat("b", 1, None, logs=LOGS), ResproutOptions(), random.Random(0))
    of_clients, *of_brokers = [desk.handlers for desk in broker.desks]
    members = dict.fromkeys(kind for handlers in of_brokers for kind in handlers)
    return {
        "client": tuple([kind for kind in RESPROUT.messages if kind in of_clients]),
        "member": tuple([kind for kind in RESPROUT.messages if kind in members and kind not in IN_PARCELS]),
    }


KINDS: Final = _kinds_of_roles()
HEARD_OF_MEMBERS: Final = IN_PARCELS.union(KINDS["member"])
HEARD_OF_CLIENTS: Final = frozenset(KINDS["client"])


class Lies:
    """`publishers`: by receiver, in whose names bundles are made."""

    def __init__(
        self, role: Role, rng: random.Random, names: tuple[str, ...], publishers: dict[str, tuple[str, ...]]
    ) -> None:
        self._role: Role = role
        self._rng = rng
        self._is_final = _is_final_of_client if role == "client" else _is_final_of_member
        self.grammars = {peer: Grammar(rng, names, some) for peer, some in publishers.items()}

    def next(self, peer: str, recorded: list[Any], said: list[Any]) -> list[Any]:
        """Return one message, or the messages of a parcel. `recorded`: what anybody said; `said`: what the liar did."""
        grammar = self.grammars[peer]
        for _ in range(DRAWS_MAX):
            messages = self._draw(grammar, recorded, said)
            if not self._is_final(messages[0]) or self._rng.random() < FINAL_KEPT:
                break
        for message in messages:
            grammar.saw(message)
        return messages

    def _draw(self, grammar: Grammar, recorded: list[Any], said: list[Any]) -> list[Any]:
        rng = self._rng
        draw = rng.random()
        if draw < 0.08 and recorded:
            return self._in_place(grammar, rng.choice(recorded))
        if draw < 0.5 and said:
            return self._in_place(grammar, grammar.mutate(rng.choice(said)))
        if draw < 0.58 and self._role == "member":
            return self._parcel(grammar)
        if draw < 0.59:
            return [grammar.make(rng.choice(RESPROUT.messages))]
        return [grammar.make(rng.choice(KINDS[self._role]))]

    def publication(self, last: dict[str, int], gave: int) -> Any:
        """What an honest client could say next, often with a field changed: the broker gets past the numbers."""
        rng, grammar = self._rng, self.grammars["b0"]
        if rng.random() < 0.3:
            return Taken(gave)
        bundle = grammar.bundle()
        first = last.get(bundle.stream, 0) + 1
        fitting = {"publisher": "evil", "incarnation": 1, "first": first, "stamp": min(bundle.stamp, 1 << 20)}
        fields = {name: getattr(bundle, name) for name in BUNDLE_FIELDS} | fitting
        return Publish(grammar.bundle(Bundle(**fields)) if rng.random() < 0.3 else Bundle(**fields))

    def greeting(self) -> Any:
        """A client asks to be served first: mostly as it should."""
        draw, grammar = self._rng.random(), self.grammars["b0"]
        if draw < 0.25:
            return self._consume()
        if draw < 0.8:
            return Attend(0)
        return grammar.mutate(Attend(0)) if draw < 0.95 else grammar.make(Consume)

    def _consume(self) -> Consume:
        """A work queue of its own, with messages that come back."""
        rng = self._rng
        retry = RetryTerms("u/dead", rng.choice((0, 1, 2, 3)), rng.choice((0, 100_000, 1 << 40)))
        name, is_group = rng.choice((("evil", True), ("evil.one", False)))
        return Consume(name, Terms("t", None, is_group, retry=retry), rng.choice((1, 3, 1000)))

    def settlement(self, handed: Sequence[Handed]) -> Any:
        """What a consumer could say of messages that it was handed, or of others."""
        rng, grammar = self._rng, self.grammars["b0"]
        spans = []
        for _ in range(rng.choice((1, 1, 2, 40))):
            if handed and rng.random() < 0.9:
                bundle = rng.choice(handed).bundle
                first = bundle.first + rng.choice((0, 0, -1, 1))
                last = bundle.last + rng.choice((0, 0, 1, 1 << 40))
                spans.append(Span(*bundle.origin, max(1, first), max(1, first, last)))
            else:
                spans.append(grammar.make(Span))
        if rng.random() < 0.3:
            return Acknowledge(tuple(spans))
        if rng.random() < 0.3:
            return FollowUp(rng.choice(spans), rng.choice((grammar.make(Bundle), self._after())))
        delay_us = rng.choice((0, 0, 1_000, 1 << 50))
        return Settle(rng.choice(list(Settlement)), tuple(spans), delay_us, rng.choice(("", "\x1b[2J", "r" * 512)))

    def _after(self) -> Bundle:
        """A follow-up as honest consumers make it, or nearly."""
        keys = self._rng.choice(((), ("k",), ("other#k",)))
        guarantee = self._rng.choice((Guarantee.EVENTUAL, Guarantee.EVENTUAL, Guarantee.EVENTUAL, Guarantee.CAUSAL))
        return Bundle("x", 1, 1, 1, 0, "t", keys, guarantee, b"", pack_payloads([b"after"]))

    def _in_place(self, grammar: Grammar, message: Any) -> list[Any]:
        """A message of a parcel is said in a parcel, or its receiver closes the session."""
        if self._role == "client" or type(message) not in IN_PARCELS or self._rng.random() < OUT_OF_PLACE:
            return [message]
        if type(message) in PARCELS:
            return [message, ParcelEnd()]
        return [self._head(grammar), message, ParcelEnd()] if type(message) is ParcelRows else self._parcel(grammar)

    def _parcel(self, grammar: Grammar) -> list[Any]:
        rng = self._rng
        head = self._head(grammar)
        belonging = [kind for kind in PARCEL_ROWS if kind in ROWS_OF[type(head)]]
        kinds = PARCEL_ROWS if rng.random() < OUT_OF_PLACE else belonging
        rows = tuple([grammar.make(rng.choice(kinds)) for _ in range(rng.randint(0, ROWS_OF_A_PARCEL))])
        end = [] if rng.random() < OUT_OF_PLACE else [ParcelEnd()]
        return [head, ParcelRows(rows), *end]

    def _head(self, grammar: Grammar) -> Any:
        """Only newcomers are welcomed."""
        is_welcome = self._rng.random() < OUT_OF_PLACE
        return grammar.make(Welcome if is_welcome else self._rng.choice((Attach, Grant)))


LEVELS_SHAPE: Final = (1, 1, 0, 1)
"""Lengths of the tuples of `Levels` where one fault is tolerated."""


def _is_final_of_client(message: Any) -> bool:
    """Whether a broker closes the session of the client `evil`, which it serves, for this."""
    match message:
        case Publish(bundle):
            return bundle.publisher != "evil" or bundle.incarnation != 1
        case Taken(count) | DropsAcknowledged(count):
            return count > 0  # `Lies.publication` says what it was given
        case AskAudience():
            return not message.topics
        case Attend() | Consume():
            return True
    return type(message) not in HEARD_OF_CLIENTS


def _is_final_of_member(message: Any) -> bool:
    """Whether a broker closes the session of a child for this, whatever was said before."""
    match message:
        case Levels(have, firm, back_have, back_firm):
            return (len(have), len(firm), len(back_have), len(back_firm)) != LEVELS_SHAPE
        case Leaving() | Lock() | Uninterested():
            return True
        case _ if type(message) in LOG_MESSAGES:
            return _is_wrong(check_log_message, message)
        case _ if type(message) in REPLICA_MESSAGES:
            return _is_wrong(check_replica_message, message)
    return type(message) not in HEARD_OF_MEMBERS


def _is_wrong(check: Callable[[str, Any], None], message: Any) -> bool:
    try:
        check("b1", message)
    except PeerError:
        return True
    return False


BUNDLE_FIELDS: Final = (
    "publisher", "incarnation", "first", "count", "stamp", "topic", "keys", "guarantee", "attributes", "payloads",
)  # fmt: skip


IN_OTHER_BRANCHES: Final = (AttachRequest, Decided, Enrol, Enrolled, PreVote, Vote, Whereabouts)
"""By these a member leads a repair around the common root, or makes voters follow a list that nobody has made."""


def _brokers_in(value: Any) -> list[str]:
    """Names that a message gives to brokers."""
    if isinstance(value, tuple):
        return [name for item in value for name in _brokers_in(item)]
    if not isinstance(value, msgspec.Struct):
        return []
    names = [value.name] if isinstance(value, Life | Place | Voter | Namesake | Offer) else []
    if isinstance(value, Place):
        names += [value.parent or "", *value.neighbours]
    elif isinstance(value, Seek):
        names += value.names
    return names + [name for field in value.__struct_fields__ for name in _brokers_in(getattr(value, field))]


def is_accepted(
    role: Role,
    message: Any,
    served: Collection[str],
    elsewhere: Collection[str],
    is_seen: Callable[[Bundle], bool],
    is_parent: bool = True,
) -> bool:
    """What docs/security.md says that a malicious member can do anyway: have brokers forgotten, say that clients began
    again, that brokers have the names of clients, or keep a log under these, and publish in the names of those that its
    neighbour does not serve; in another branch, repair around the common root and lie to voters. `is_seen`: by that
    neighbour."""
    if role != "member":
        return False
    if not is_parent and isinstance(message, IN_OTHER_BRANCHES):
        return True
    if any(name in served or name in elsewhere for name in _brokers_in(message)):
        return True
    replicas = [name for log in message.logs for name in log.replicas] if isinstance(message, LogsDeclared) else []
    if any(name in served or name in elsewhere for name in replicas):
        return True
    parts = message.rows if isinstance(message, ParcelRows) else (message,)
    return any(_is_accepted_part(part, served, elsewhere, is_seen) for part in parts)


def _is_accepted_part(
    part: Any, served: Collection[str], elsewhere: Collection[str], is_seen: Callable[[Bundle], bool]
) -> bool:
    match part:
        case Suspect():
            return part.force or bool(part.forgotten)
        case ClientBegan(name):
            return name in served or name in elsewhere
        case SeenMark(mark) | LastTotal(mark):
            return mark.publisher in elsewhere
        case Stub():
            return part.publisher in elsewhere
    bundle = getattr(part, "bundle", None)
    if not isinstance(bundle, Bundle):
        return False
    begins_again = bundle.publisher in served and bundle.incarnation > 1
    return begins_again or (bundle.publisher in elsewhere and not is_seen(bundle))
