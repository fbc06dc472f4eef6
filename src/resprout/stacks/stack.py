"""What a stack declares about itself, so that no other package has to know it by name.

A `Stack` has a name, the guarantees and subscriptions that it offers, its options, and a function that makes its
brokers. It also says how far its order reaches, what its messages are for (`Family`: a trace counts them by type, and
people ask for the purpose), how long its brokers wait, and which faults it survives with all its promises kept
(`Survival`: a swarm does these faults to it, and no others).
"""

import difflib
import enum
import random
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from resprout.core.bundle import MakeStore
from resprout.core.contract import Machine, word_of
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, OrderScope, Promises, ReceiptLevel, Reliability, check_offered
from resprout.logs.declaration import LogDeclaration
from resprout.overlay.places import Place

O = TypeVar("O", bound=msgspec.Struct)  # noqa: E741


class Family(enum.StrEnum):
    PUBLICATIONS = "publications"
    """Bring a publication from broker to broker, or what is needed to order it."""
    REPORTS = "reports"
    """Say between brokers how far publications have come."""
    SUBSCRIPTIONS = "subscriptions"
    """Spread between brokers who wants what."""
    MEMBERSHIP = "membership"
    """Who belongs to the network and lives: signs of life, joins, moves, elections."""
    REPAIR = "repair"
    LOGS = "logs"
    """Keep logs, between their replicas and feeders."""
    CLIENTS = "clients"
    """All that clients and their brokers say to each other, and brokers about clients."""
    OTHER = "other"
    """Of a stack that does not say, or that is not installed where its traces are read."""


class Survival(msgspec.Struct, frozen=True):
    """At most `faults` of the brokers on any path of `span` are down at once, counted until their repair is complete.
    Whatever is False is never done to a broker. The least, which is the default, is nothing but what needs no repair:
    short pauses, and connections that break and come back."""

    faults: int = 0
    span: int | None = None
    """In brokers; None: of the whole network."""
    each_site: bool = False
    """Whether that is counted for each site by itself, whoever is down in others; of those that never return, too."""
    majority: bool = False
    """A majority of the 2f + 1 brokers nearest to the root must be left of those that do not crash for all to see."""
    least: int = 0
    """So many brokers have to live for any of them to fall: with fewer, something is held by too few."""
    silent_hosts: bool = False
    """Whether a broker may go without a word from its host."""
    freezes: bool = False
    """Whether one may stop for longer than it takes to be declared dead, and go on."""
    clients_restart_at_home: bool = False
    """Whether a client that crashes must find its own broker when it starts again. Elsewhere it may be overtaken by all
    that its earlier life had published at a broker that is frozen or cut off. So these are not drawn together."""
    cuts: bool = False
    """Whether up to f brokers may be cut off from all others, and come back; and clients for so long that they turn to
    other brokers, while their own one lives."""
    partitions: bool = False
    """Whether the network may be in two for a while, each part larger than f."""
    joins: bool = False
    leaves: bool = False
    recovers_with_disk: bool = False
    """Whether a crashed broker may start again with what it had persisted."""
    recovers_without_disk: bool = False
    """Whether it may with nothing."""
    returns_early: bool = False
    """Whether a crashed broker may be back before its repair is complete."""
    all_return: bool = False
    """Whether every broker that crashes has to start again: its clients wait for it, and for nobody else."""
    again: bool = False
    """Whether more may fall when the repair of those before is complete."""

    @property
    def recovers(self) -> bool:
        return self.recovers_with_disk or self.recovers_without_disk


NOTHING = Survival()


def everything(faults: int) -> Survival:
    """Of a tree that repairs itself around any f of its brokers on a path of 2f + 1."""
    return Survival(
        faults, 2 * faults + 1, majority=True, silent_hosts=True, freezes=True, cuts=True, partitions=True, joins=True,
        leaves=True, recovers_with_disk=True, recovers_without_disk=True, returns_early=True, again=True,
    )  # fmt: skip


class BrokerSeat(msgspec.Struct, frozen=True):
    """Where a broker stands when it is made."""

    name: str
    incarnation: int
    parent: str | None
    """Whom to join; None for the root, which founds the network unless it has contacts."""
    contacts: tuple[str, ...] = ()
    """Brokers that may be asked for a place when the parent is not there."""
    address: str = ""
    """Where others reach this broker; empty where names are enough to connect."""
    site: str = ""
    """The group of brokers that replicate each other; empty where there are no groups."""
    spill: MakeStore | None = None
    """Where it may put what waits for long; None: nowhere."""
    remembers: bool = False
    """What it wants remembered (`Remember`) is kept beyond the end of the process."""
    memory: bytes = b""
    """What an earlier life of this broker wanted remembered last; empty for none."""
    founds: bool = False
    """It founds a network whatever it remembers: an operator says that nobody else goes on."""
    epoch_us: int = 0
    """What to add to the time of events to have microseconds since 1970; 0 where time is virtual."""
    logs: tuple[LogDeclaration, ...] = ()
    """All logs of the network (`docs/logs.md`), whichever brokers keep them."""

    @property
    def first_place(self) -> Place:
        """As it is published before it has neighbours."""
        return Place(self.name, self.incarnation, 1, None, (), self.address)


class WaitTimes(msgspec.Struct, frozen=True):
    """How long brokers wait before they act of their own accord: a run is over only when it was calm for longer."""

    death_us: int = 0
    """A broker whose links have fallen silent may be declared dead after so long."""
    return_us: int = 0
    """So long something is kept for the clients of a dead broker."""


def _no_waits(options: Any) -> WaitTimes:
    return WaitTimes()


def _nothing(options: Any) -> Survival:
    return NOTHING


def _no_sites(options: Any) -> int:
    return 0


def _never(options: Any) -> bool:
    return False


class Stack(msgspec.Struct, Generic[O], frozen=True):
    name: str
    guarantees: tuple[Guarantee, ...]
    """All that it can offer; see `offered`."""
    options: type[O]
    messages: tuple[type[msgspec.Struct], ...]
    """Every message that its nodes exchange, clients' included: what the codec must know."""
    make_broker: Callable[[BrokerSeat, O, random.Random], Machine]
    offers: Callable[[O], tuple[Guarantee, ...]] | None = None
    """Which of the guarantees it offers with these options; None: always all of them."""
    order: OrderScope = OrderScope.ALL_TOPICS
    reliability: Reliability = Reliability.CERTAIN
    receipts: tuple[ReceiptLevel, ...] = tuple(ReceiptLevel)
    """Those that its brokers give; the last one that is due comes for certain."""
    families: Mapping[Family, tuple[type[msgspec.Struct], ...]] = {}
    """What its messages are for."""
    waits: Callable[[O], WaitTimes] = _no_waits
    survives: Callable[[O], Survival] = _nothing
    site_brokers: Callable[[O], int] = _no_sites
    """How many brokers are a site, where sites form the tree; 0 where brokers do."""
    layers: Mapping[str, str] = {}
    """By package: the layer that its messages belong to (`overlay`, `spread`, `order`), for papers that count messages
    by layers. Other messages of the stack are its own."""
    drawn: Mapping[str, tuple[Any, ...]] = {}
    """By option: what a swarm draws from; the others are as by default."""
    reach_us: int = 0
    """The longest link that a swarm draws, for a stack that assumes that messages do not take long; 0: any."""
    keeps_records: Callable[[O], bool] = _never
    """Whether its brokers persist anything with these options, and need a place for it."""
    keeps_subscriptions: bool = False
    """Whether it offers durable subscriptions (`edge.durable_messages`)."""
    keeps_logs: bool = False
    """Whether its brokers keep logs (`docs/logs.md`)."""
    known_anomalies: Mapping[str, str] = {}
    """By rule of the judge that it breaks without any fault, or within what it survives: why. A swarm passes over
    these, a report says so."""
    known_limits: Mapping[str, str] = {}
    """By rule, what may be the reason for a violation, depending on who died; one all the same."""

    def parse_options(self, given: Mapping[str, Any]) -> O:
        """The stack's options with what was given; an unknown name, a wrong type or a bad value is a UsageError."""
        known = {field.name: field for field in msgspec.structs.fields(self.options)}
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
                raise UsageError(f"option {name!r}: the stack {self.name!r} has no such option{hint}")
        try:
            return msgspec.convert(dict(given), self.options, strict=True)
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `$.")
            if not where:  # it is about several of them, and names them
                raise UsageError(text) from None
            name = where.rstrip("`")
            raise UsageError(f"option {name!r}: {text[:1].lower()}{text[1:]}") from None

    def offered(self, options: O) -> tuple[Guarantee, ...]:
        """The guarantees that brokers with these options offer."""
        return self.guarantees if self.offers is None else self.offers(options)

    def promise(self) -> Promises:
        """What its runs are judged by."""
        return Promises(self.order, self.reliability, tuple(receipt.label for receipt in self.receipts))

    def family_of(self, message: str) -> Family:
        """By the word that traces have for it."""
        for family, messages in self.families.items():
            if any(word_of(one) == message for one in messages):
                return family
        return Family.OTHER

    def check_guarantee(self, guarantee: Guarantee, options: O | None = None) -> None:
        """UsageError unless it is offered with these options; without options, with those of the default."""
        offered = self.offered(self.parse_options({}) if options is None else options)
        check_offered(guarantee, offered, self.name)
