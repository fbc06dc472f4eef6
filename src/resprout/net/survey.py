"""Questions about brokers, and the answers: one broker, all that can be reached, or the way of one publication.

A survey asks one broker after the other, from neighbour to neighbour, until all that can be reached have answered. Each
is asked on a connection of its own by the process that wants to know: brokers pass no questions on, so a broker that
hangs keeps only its own answer from the asker.

`answer` is the broker's side: it answers an `AskAccount` as JSON.
"""

import ast
import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import check_topic
from resprout.core.message import MessageId
from resprout.net.accounts import BrokerAccount, MissingBroker, PassageAnswer, TreeSurvey
from resprout.net.address import Address, parse_address
from resprout.net.bookkeeper import Bookkeeper
from resprout.net.discover import Prove, UnreachableError, exchange, who_is
from resprout.net.identity.proofs import LoginSecret, NetworkKey, OpenerLogin, OpenerMembership
from resprout.net.sessions import AccountTold, AskAccount
from resprout.net.tls import Keyring
from resprout.stacks.status import MemberSeen

AT_ONCE: Final = 16
"""Brokers that are asked at the same time."""
BROKERS_MAX: Final = 2_000
ANSWER_SECONDS: Final = 3.0
SURVEY_SECONDS: Final = 60.0
"""Brokers that were not asked by then are missing from a survey: a member may name any number that do not answer."""
SURVEY_BYTES: Final = 32 << 20
"""The same when the answers have so many bytes together. One answer has 4 MiB at most."""

T = TypeVar("T", bound=msgspec.Struct)

ACCOUNT: Final = "account"
READERS: Final = "readers"
PASSAGE: Final = "passage"


class Asker:
    """Who asks, and how it shows who it is."""

    def __init__(
        self,
        name: str,
        role: str,
        keyring: Keyring | None,
        login: LoginSecret | None = None,
        timeout_s: float = ANSWER_SECONDS,
        network_key: NetworkKey | None = None,
    ) -> None:
        self._name = name
        self._role = role
        self._keyring = keyring
        self._login = login
        self._timeout_s = timeout_s
        self._network_key = network_key
        self.bytes_heard = 0
        """Of all answers."""

    async def ask(self, address: Address, kind: type[T], what: str, about: str = "", broker: str = "") -> T:
        """Ask the broker that listens there, or the one of this name. UnreachableError says why there is no answer."""
        said = (AskAccount(self._name, self._role, what, about),)
        prove = await self._proof(address, broker)
        told = await exchange(address, self._timeout_s, said, AccountTold, self._keyring, prove)
        self.bytes_heard += len(told.answer)
        try:
            return msgspec.json.decode(told.answer, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise UnreachableError(
                f"{address}: {told.name} tells what cannot be read: {error}", retryable=False
            ) from None

    async def account(self, address: Address, broker: str = "") -> BrokerAccount:
        return await self.ask(address, BrokerAccount, ACCOUNT, broker=broker)

    async def _proof(self, address: Address, broker: str) -> Prove | None:
        """A login is meant for one broker, by its certificate or else by its name."""
        login, key = self._login, self._network_key
        if login is not None:
            if not broker and self._keyring is None:
                broker = (await who_is(address, self._timeout_s, self._name)).name
            return lambda certificate: OpenerLogin(login, certificate, broker)
        if key is not None:
            return lambda certificate: OpenerMembership(key, self._name, 0, broker or None)
        return None


async def survey(asker: Asker, first: BrokerAccount, most_bytes: int | None = None) -> TreeSurvey:
    """Everybody that can be found from here on, within `SURVEY_SECONDS` and `most_bytes` of answers."""
    found: dict[str, BrokerAccount] = {first.name: first}
    missing: dict[str, MissingBroker] = {}
    seen: dict[str, None] = {first.name: None}
    turn = asyncio.Semaphore(AT_ONCE)
    until_s, bytes_max = time.monotonic() + SURVEY_SECONDS, asker.bytes_heard + (most_bytes or SURVEY_BYTES)

    async def visit(member: MemberSeen) -> Sequence[MemberSeen]:
        address = member.address if isinstance(member.address, str) else ""
        if member.dead:
            missing[member.name] = _missing(member, "it was declared dead, and its place is not closed yet")
            return ()
        if not address:
            missing[member.name] = _missing(member, "its address is not known")
            return ()
        async with turn:
            if time.monotonic() > until_s or asker.bytes_heard > bytes_max:
                missing[member.name] = _missing(member, "it was not asked: earlier answers were too slow or too long")
                return ()
            try:
                account = await asker.account(parse_address(address), member.name)
                if account.name != member.name:
                    raise UnreachableError(f"{address}: {account.name} listens there")
                if asker.bytes_heard > bytes_max:
                    raise UnreachableError("its answer was not taken: all answers together are too long")
            except (UnreachableError, UsageError) as error:
                missing[member.name] = _missing(member, str(error))
                return ()
        found[account.name] = account
        return account.members

    waiting = _new(first.members, seen)
    while waiting:
        told = await asyncio.gather(*[visit(member) for member in waiting])
        waiting = [member for members in told for member in _new(members, seen)]
    others = sorted((one for one in found.values() if one is not first), key=lambda one: one.name)
    return TreeSurvey(
        name=first.name,
        incarnation=first.life,
        network=first.network,
        notices=tuple([f"{one.name}: {line}" for one in (first, *others) for line in one.notices]),
        time=round(time.time(), 3),
        brokers=(first, *others),
        missing=tuple(sorted(missing.values(), key=_by_name)),
    )


async def ask_all(
    asker: Asker, brokers: Iterable[BrokerAccount], kind: type[T], what: str, about: str, failed: Callable[[str], None]
) -> list[T]:
    """One question to all of them; who does not answer is left out, and told to `failed`."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def visit(broker: BrokerAccount) -> T | None:
        async with turn:
            try:
                return await asker.ask(parse_address(broker.address), kind, what, about, broker.name)
            except (UnreachableError, UsageError) as error:
                failed(f"{broker.name} does not tell: {error}")
                return None

    told = await asyncio.gather(*[visit(broker) for broker in brokers])
    return [one for one in told if one is not None]


def _new(members: Iterable[MemberSeen], seen: dict[str, None]) -> list[MemberSeen]:
    new = []
    for member in members:
        if member.name not in seen and len(seen) < BROKERS_MAX:
            seen[member.name] = None
            new.append(member)
    return new


def _missing(member: MemberSeen, reason: str) -> MissingBroker:
    return MissingBroker(member.name, reason, member.address, member.parent, member.dead)


def _by_name(one: MissingBroker) -> str:
    return one.name


def answer(books: Bookkeeper, asked: AskAccount) -> bytes:
    """UsageError when that is no question."""
    match asked.what:
        case "account":
            told: Any = books.account()
        case "readers":
            told = books.readers(check_topic(asked.about))
        case "passage":
            about = _read(asked.about)
            told = books.passage(about.publisher, about.epoch, about.stream, about.seq)
        case _:
            raise UsageError(f"{asked.what!r} is nothing that a broker tells")
    return msgspec.json.encode(told)


def parse_id(text: str) -> MessageId:
    """Parse an id: NAME.EPOCH/STREAM:NUMBER, as `str(message.id)` has it; or a tuple or a list in JSON of the four."""
    name, slash, rest = text.rpartition("/")
    publisher, dot, life = name.rpartition(".")
    stream, colon, seq = rest.partition(":")
    try:
        if slash and dot and colon and not text.startswith(("(", "[")):
            return MessageId(publisher, int(life), stream, int(seq))
        return msgspec.convert(ast.literal_eval(text.strip()), MessageId)
    except (ValueError, SyntaxError, msgspec.ValidationError, MemoryError, RecursionError):
        raise UsageError(
            f"{text!r} is no publication's id: NAME.EPOCH/STREAM:NUMBER, as str(receipt.id) and str(message.id) have it"
        ) from None


def _read(text: str) -> MessageId:
    try:
        return msgspec.json.decode(text, type=MessageId)
    except msgspec.MsgspecError as error:
        raise UsageError(f"that is no id of a publication: {error}") from None


class PublicationWay(msgspec.Struct, frozen=True):
    """What `resprout trace --json` prints."""

    id: MessageId
    brokers: tuple[PassageAnswer, ...]
    """That remember it, in the order in which it came to them by their clocks."""
    unanswered: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the publication, in short: `resprout trace` takes it as an id."""
        return str(self.id)
