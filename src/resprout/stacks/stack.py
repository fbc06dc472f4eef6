"""What a stack declares about itself, so that no other package has to know it by name; and how a stack is found.

A `Stack` has a name, the guarantees and subscriptions that it offers, its options, and a function that makes its
brokers. It also says how far its order reaches, what its messages are for (`Family`: a trace counts them by type, and
people ask for the purpose), how long its brokers wait, and which faults it survives with all its promises kept
(`Survival`: a swarm does these faults to it, and no others).

`find_stack` finds the default stack, or one that an installed package brings. A stack is imported when its name is
asked for. A process runs one stack and does not wait for the code of the others. Other packages bring stacks by entry
points of the group `resprout.stacks`:

    [project.entry-points."resprout.stacks"]
    mine = "my_package:STACK"

The entry points are read when somebody asks for a stack that is not built in, never by a protocol. A package that
cannot be loaded costs its own stack, and no other.
"""

import difflib
import enum
import functools
import random
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from resprout.core import limits
from resprout.core.bundle import MakeStore
from resprout.core.contract import Machine, word_of
from resprout.core.errors import UsageError, logger
from resprout.core.guarantee import Guarantee, OrderScope, Promises, ReceiptLevel, Reliability, check_offered
from resprout.core.limits import parse_size
from resprout.logs.declaration import LogDeclaration
from resprout.overlay.messages import Place

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    that its earlier life had published at a broker that is frozen or cut off, or that returns with its disk. So these
    are not drawn together."""
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


class RosterEntry(msgspec.Struct, frozen=True):
    """One broker of a network whose brokers are all named in its configuration."""

    name: str
    site: str = ""
    parent: str | None = None
    address: str = ""
    """Where it listens; empty where names are enough, or where others will say so."""

    def text(self) -> str:
        """Return the form that `parse_roster_entry` reads."""
        fields = ((key, getattr(self, key)) for key in ("site", "parent", "address"))
        return ",".join([self.name, *[f"{key}={value}" for key, value in fields if value]])


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
    roster: tuple[RosterEntry, ...] = ()
    """All brokers of the network, this one included; only where brokers form sites (`Stack.site_brokers`)."""
    is_traced: bool = False
    """Notes of the broker are kept in a trace: it may write one for each message that a log drops by compaction."""

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


def _zero(options: Any) -> int:
    return 0


def _as_bytes(option: str, value: Any) -> Any:
    """Return a size that is written with its unit ("64MiB") as a number of bytes; any other value as it is."""
    if isinstance(value, str) and (option.endswith("_bytes") or option == "max_payload"):
        try:
            return parse_size(value)
        except UsageError as error:
            raise UsageError(f"option {option!r}: {error}") from None
    return value


def _usual_payload(options: Any) -> int:
    return limits.PAYLOAD_BYTES


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
    site_brokers: Callable[[O], int] = _zero
    """How many brokers are a site, where sites form the tree; 0 where brokers do."""
    layers: Mapping[str, str] = {}
    """By package: the layer that its messages belong to (`overlay`, `spread`, `order`), for papers that count messages
    by layers. Other messages of the stack are its own."""
    drawn: Mapping[str, tuple[Any, ...]] = {}
    """By option: what a swarm draws from; the others are as by default."""
    reach_us: int = 0
    """The longest link that a swarm draws, for a stack that assumes that messages do not take long; 0: any."""
    max_payload: Callable[[O], int] = _usual_payload
    """Bytes that one payload may have with these options; the same at all brokers of a network."""
    keeps_records: Callable[[O], bool] = _never
    """Whether its brokers persist anything with these options, and need a place for it."""
    keeps_subscriptions: bool = False
    """Whether it offers durable subscriptions (`edge.durable_messages`)."""
    keeps_logs: bool = False
    """Whether its brokers keep logs (`docs/logs.md`)."""
    known_anomalies: Mapping[str, str] = {}
    """By rule of the judge that it breaks without any fault, or within what it survives: why. A swarm passes over
    these, a report says so."""
    keeps_us: Callable[[O], int] = _zero
    """For how long it keeps publications for clients that are away; 0: for as long as they may be away within what it
    survives. A client that was away for longer may be told that it missed messages."""
    idle_us: Callable[[O], int] = _zero
    """After so long without work it drops something. A swarm lets some drawn scenarios rest for so long before more
    work; 0: it drops nothing."""
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
            values = {name: _as_bytes(name, value) for name, value in given.items()}
            return msgspec.convert(values, self.options, strict=True)
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


GROUP: Final = "resprout.stacks"

_loaded: dict[tuple[str, str], Stack[Any]] = {}
"""By entry point, name and value: what was loaded once stays."""

DEFAULT: Final = "resprout"

REPLACED: dict[str, Stack[Any]] = {}
"""Stacks that a test puts here: each replaces the one of its name, or stands beside the others."""


@functools.lru_cache(maxsize=4)
def _offered(path: tuple[str, ...]) -> "frozenset[EntryPoint]":
    """Return the entry points of the packages on a path. Reading them takes about 6 ms, and every run asks for its
    stack several times, so they are read once for each `sys.path`."""
    from importlib.metadata import entry_points  # to import it takes longer than all else here

    return frozenset(entry_points(group=GROUP))


def installed_stack(name: str) -> Stack[Any] | None:
    """None when no package says that it brings it; UsageError, in one line, when it cannot be loaded."""
    offered = sorted((one for one in _offered(tuple(sys.path)) if one.name == name), key=lambda one: one.value)
    if len(offered) > 1:
        places = " and ".join(one.value for one in offered)
        raise UsageError(f"the stack {name!r} is brought by two packages: {places}")
    return _load(offered[0]) if offered else None


def installed_stacks() -> dict[str, Stack[Any]]:
    """All that can be loaded, by name; of each of the others one line is logged."""
    found = {}
    for name in sorted({one.name for one in _offered(tuple(sys.path))}):
        try:
            if (stack := installed_stack(name)) is not None:
                found[name] = stack
        except UsageError as error:
            logger.warning("%s", error)
    return found


def _load(entry: "EntryPoint") -> Stack[Any]:
    key = (entry.name, entry.value)
    if key not in _loaded:
        trouble = f"the stack {entry.name!r} ({entry.value}) cannot be loaded"
        try:
            stack = entry.load()
        except Exception as error:  # whatever happens while a stranger's module is imported
            reason = " ".join(str(error).split())[:200]
            raise UsageError(f"{trouble}: {type(error).__name__}: {reason}") from None
        if not isinstance(stack, Stack):
            raise UsageError(f"{trouble}: it is no Stack, but a {type(stack).__name__}")
        if stack.name != entry.name:
            raise UsageError(f"{trouble}: the stack calls itself {stack.name!r}")
        _loaded[key] = stack
    return _loaded[key]


def find_stack(name: str) -> Stack[Any]:
    """Raise UsageError when there is no stack of this name, or when it cannot be loaded."""
    if name in REPLACED:
        return REPLACED[name]
    return _default() if name == DEFAULT else _installed(name)


def all_stacks() -> dict[str, Stack[Any]]:
    """The default stack first, then the others by name. It imports all of them: for lists, help and tests."""

    others = installed_stacks() | REPLACED
    return {DEFAULT: find_stack(DEFAULT)} | {name: others[name] for name in sorted(others) if name != DEFAULT}


def _default() -> Stack[Any]:
    from resprout.stacks.resprout import RESPROUT

    return RESPROUT


def _installed(name: str) -> Stack[Any]:

    stack = installed_stack(name)
    if stack is None:
        raise UsageError(f"unknown stack {name!r}; there is {', '.join(all_stacks())}")
    return stack
