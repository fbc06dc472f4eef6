"""Who is known, what each may do, and the broker's half of a login.

The rules are one TOML file:

    [[identity]]
    name = "teller"
    secrets = ["SCRAM-SHA-256$4096:..."]   # verifiers of tokens or passwords, any of which will do
    certificates = ["teller"]              # or names of clients in certificates
    clients = ["teller", "teller-*"]       # what its clients may be called; else its name, and its name with a dot
    publish = ["bank/#"]
    subscribe = ["bank/+", "news/#", "of/{client}/#"]
    consume = ["billing", "audit-*"]       # durable subscriptions of others that it may consume
    manage = ["audit-*"]                   # and those that it may end
    block = ["bank/#"]                     # where publishers may have to wait for its subscriptions, if these are full
    operate = true                         # may tell the network to forget brokers, and see its status
    observe = true                         # may only see its status: `resprout status`, the live page, metrics
    limits = { identity_clients = 10 }     # instead of those of the broker, as in `[limits]` of its file

    [anybody]                              # a client that shows nothing; without this table it is refused
    subscribe = ["news/#"]

`{client}` stands for the name of the client. Anything unknown is refused, with the file and the line. The identity that
creates a durable subscription owns it. A name that `consume` lists is reserved for the identities that list it, so that
nobody else takes it first; a star alone reserves nothing.

`LoginBook` issues challenges and checks proofs. An unknown identity is challenged like a known one, with a salt that
stays the same, and its proof takes as long to check: a stranger cannot find out which identities exist. A right proof
is always accepted. Wrong ones delay the next challenge for this identity from this address; nobody is locked out
(`LoginThrottle`).
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import NameRefusedError
from resprout.core.limits import check_name
from resprout.edge.rights import ANY_NAME, Rights, is_listed
from resprout.filters.predicate import check_filter
from resprout.net.connection_limits import IDENTITY_LIMITS
from resprout.net.identity.proofs import SALTS_MAX
from resprout.net.identity.scram import ITERATIONS_MIN, SALT_BYTES, Verifier, auth_message, read_verifier
from resprout.net.sessions import Challenge, Login, ProofAccepted, ProofOfSecret, Salt
from resprout.scenario.reader import TomlTable
from resprout.scenario.source import read_source

IDENTITIES_MAX: Final = 100_000
FILTERS_MAX: Final = 1_000
CERTIFICATES_MAX: Final = 16
CLIENT: Final = "{client}"

_RIGHTS: Final = ("publish", "subscribe", "consume", "manage", "block", "operate", "observe")
_KEYS: Final = ("name", "secrets", "certificates", "clients", *_RIGHTS, "limits")
COUNT_MAX: Final = 1_000_000_000

NONCE_BYTES: Final = 18
WRONG: Final = "this identity and this secret do not belong together"

FREE_FAILURES: Final = 10
"""Wrong secrets for one identity from one address within a period that delay nothing."""
FREE_FAILURES_OF_ALL: Final = 100
"""The same of one address whatever the identity, and of one identity wherever they come from."""
PERIOD_S: Final = 60.0
DELAY_S_MIN: Final = 0.05
DELAY_S_MAX: Final = 2.0
"""Before a challenge, after more failures than that: doubled with each of them."""
COUNTED_MAX: Final = 10_000


class KnownIdentity(msgspec.Struct, frozen=True):
    name: str
    clients: tuple[str, ...]
    """Names, or beginnings of names with a star behind them."""
    rights: Rights
    """With `{client}` in them."""
    secrets: tuple[Verifier, ...] = ()
    certificates: tuple[str, ...] = ()
    limits: Mapping[str, int] = {}

    def may_be_called(self, client: str) -> bool:
        return is_listed(self.clients, client)


class Rules(msgspec.Struct, frozen=True):
    identities: Mapping[str, KnownIdentity]
    anybody: Rights | None = None
    """Of whoever shows nothing; None: such clients are not served."""
    kept_names: frozenset[str] = frozenset()
    kept_beginnings: tuple[str, ...] = ()
    """Names of durable subscriptions, and beginnings of names, that only identities that list them may create."""

    def of_certificate(self, names: Iterator[str]) -> KnownIdentity | None:
        wanted = set(names)
        return next((one for one in self.identities.values() if wanted.intersection(one.certificates)), None)

    def is_reserved(self, client: str) -> bool:
        """Whether the name belongs to somebody who is known."""
        return any(one.may_be_called(client) for one in self.identities.values())

    def owner_of(self, client: str) -> str:
        """Return the identity whose clients may have this name; empty for none."""
        return next((one.name for one in self.identities.values() if one.may_be_called(client)), "")

    def keeps(self, durable: str) -> bool:
        """Whether the name of a durable subscription is kept for those who list it."""
        return durable in self.kept_names or durable.startswith(self.kept_beginnings)

    def is_for_anybody(self, durable: str) -> bool:
        """Whether whoever shows nothing may consume it."""
        return self.anybody is not None and is_listed(self.anybody.consume, durable)


def rights_of(rights: Rights, client: str) -> Rights:
    """Of a client of this name."""

    def filled(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([text.replace(CLIENT, client) for text in texts])

    return Rights(
        filled(rights.publish), filled(rights.subscribe), rights.operate, rights.observe,
        filled(rights.consume), filled(rights.manage), block=filled(rights.block),
    )  # fmt: skip


def read_rules(path: Path) -> Rules:
    """UsageError, with file and line, when something is wrong with it."""
    source = read_source(path)
    file = TomlTable(source, ())
    file.only(("identity", "anybody"))
    identities: dict[str, KnownIdentity] = {}
    certificates: set[str] = set()
    for table in file.tables("identity", IDENTITIES_MAX, "identity"):
        one = _identity(table)
        if one.name in identities:
            table.fail("name", f"there are two identities called {one.name}")
        if taken := certificates.intersection(one.certificates):
            table.fail("certificates", f"the certificate of {min(taken)} belongs to two identities")
        certificates.update(one.certificates)
        identities[one.name] = one
    anybody = None
    if "anybody" in file:
        table = TomlTable(source, ("anybody",), "anybody")
        table.only(_RIGHTS)
        anybody = _rights(table)
    listed = [one.rights for one in identities.values()] + ([anybody] if anybody is not None else [])
    # An entry with the name of the client in it keeps nothing: it is a name only for one client at a time.
    kept = {name for rights in listed for name in rights.consume if name != ANY_NAME and CLIENT not in name}
    beginnings = tuple(sorted(name[:-1] for name in kept if name.endswith("*")))
    return Rules(identities, anybody, frozenset(kept), beginnings)


def _identity(table: TomlTable) -> KnownIdentity:
    table.only(_KEYS)
    name = table.checked("name", lambda text: check_name(text, "identity"))
    texts = table.texts("secrets", SALTS_MAX, ())
    secrets = tuple(table.attempt(("secrets", place), read_verifier, text) for place, text in enumerate(texts))
    certificates = table.texts("certificates", CERTIFICATES_MAX, ())
    if not secrets and not certificates:
        table.fail("", "no client can prove this identity: give `secrets` or `certificates`")
    clients = table.texts("clients", FILTERS_MAX, (name, f"{name}.*"))
    for place, pattern in enumerate(clients):
        table.attempt(("clients", place), _check_pattern, pattern)
    return KnownIdentity(name, clients, _rights(table), secrets, certificates, _limits(table))


def _limits(table: TomlTable) -> dict[str, int]:
    if "limits" not in table:
        return {}
    limits = TomlTable(table.source, (*table.path, "limits"), f"{table.what}, limits")
    limits.only(IDENTITY_LIMITS)
    return {key: limits.integer(key, 1, COUNT_MAX) for key in limits.values}


def _rights(table: TomlTable) -> Rights:
    for key in ("publish", "subscribe", "block"):
        for place, text in enumerate(table.texts(key, FILTERS_MAX, ())):
            table.attempt((key, place), check_filter, text.replace(CLIENT, "client"))
    for key in ("consume", "manage"):
        for place, text in enumerate(table.texts(key, FILTERS_MAX, ())):
            table.attempt((key, place), _check_durable, text.replace(CLIENT, "client"))
    return Rights(
        table.texts("publish", FILTERS_MAX, ()), table.texts("subscribe", FILTERS_MAX, ()),
        table.flag("operate", False), table.flag("observe", False),
        table.texts("consume", FILTERS_MAX, ()), table.texts("manage", FILTERS_MAX, ()),
        block=table.texts("block", FILTERS_MAX, ()),
    )  # fmt: skip


def _check_pattern(pattern: str, what: str = "client") -> str:
    try:
        check_name(pattern.removesuffix("*") or "any")
    except NameRefusedError:
        raise NameRefusedError(f"{pattern!r} is no name of a {what}, and no beginning of one with a star") from None
    return pattern


def _check_durable(pattern: str) -> str:
    return _check_pattern(pattern, "durable subscription")


class PendingLogin:
    """A login that was challenged."""

    def __init__(self, login: Login, verifiers: tuple[Verifier, ...], is_known: bool) -> None:
        self.identity = login.name
        self._login = login
        self._verifiers = verifiers
        self._is_known = is_known
        self._nonce = login.nonce + secrets.token_urlsafe(NONCE_BYTES)

    @property
    def challenge(self) -> Challenge:
        return Challenge(self._nonce, tuple(Salt(one.salt, one.iterations) for one in self._verifiers))

    def check(self, proof: ProofOfSecret, channel: str, binding: bytes) -> ProofAccepted | None:
        """None when it is wrong. Every verifier is tried, whichever is right."""
        accepted = None
        proofs = proof.proofs if len(proof.proofs) == len(self._verifiers) else ()
        for which, one in enumerate(proofs):
            verifier = self._verifiers[which]
            message = auth_message(
                self.identity, self._login.nonce, self._nonce, verifier.salt, verifier.iterations, channel, binding
            )
            if verifier.accepts(message, one):
                accepted = ProofAccepted(which, verifier.signature(message))
        return accepted if self._is_known else None


class LoginBook:
    """The identities that can log in, as the rules have them."""

    def __init__(self, identities: Mapping[str, KnownIdentity]) -> None:
        self._known = {name: one.secrets for name, one in identities.items() if one.secrets}
        self._shapes = tuple(tuple(one.iterations for one in verifiers) for verifiers in self._known.values())
        first = next(iter(self._known.values()), None)
        self._key = hashlib.sha256(b"salts" + (first[0].server_key if first is not None else b"")).digest()
        """Known to those who have the rules only, and the same at all brokers and after a restart."""

    def begin(self, login: Login) -> PendingLogin:
        return PendingLogin(login, *self.find(login.name))

    def find(self, identity: str) -> tuple[tuple[Verifier, ...], bool]:
        """Its verifiers, and whether it is known at all."""
        invented = self._invent(identity)  # also for one that is known: it takes time
        verifiers = self._known.get(identity)
        return verifiers or invented, verifiers is not None

    def _invent(self, identity: str) -> tuple[Verifier, ...]:
        """Verifiers for an identity that is not known: as many as one that is known has, and as slow."""
        seed = hmac.digest(self._key, identity.encode("utf-8", "replace"), "sha256")
        shapes = self._shapes or ((ITERATIONS_MIN,),)
        shape = shapes[int.from_bytes(seed[:8], "big") % len(shapes)]
        return tuple(_invented(seed, number, iterations) for number, iterations in enumerate(shape))


def _invented(seed: bytes, number: int, iterations: int) -> Verifier:
    salt, stored, server = (hmac.digest(seed, b"%d %s" % (number, part), "sha256") for part in _PARTS)
    return Verifier(iterations, salt[:SALT_BYTES], stored, server)


_PARTS: Final = (b"salt", b"stored", b"server")


class LoginThrottle:
    """Counts wrong secrets, by identity and address. One for all doors of a broker."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], tuple[float, int]] = {}
        """Since when, and how many."""

    def delay_s(self, identity: str, source: str, now_s: float) -> float:
        """How long the next challenge is put off."""
        return max(
            self._delay_of((identity, source), FREE_FAILURES, now_s),
            self._delay_of((identity, ""), FREE_FAILURES_OF_ALL, now_s),
            self._delay_of(("", source), FREE_FAILURES_OF_ALL, now_s),
        )

    def failed(self, identity: str, source: str, now_s: float) -> None:
        for key in ((identity, source), (identity, ""), ("", source)):
            since_s, count = self._failures.pop(key, (now_s, 0))
            if now_s - since_s > PERIOD_S:
                since_s, count = now_s, 0
            self._failures[key] = (since_s, count + 1)
        while len(self._failures) > COUNTED_MAX:
            del self._failures[next(iter(self._failures))]

    def _delay_of(self, key: tuple[str, str], free: int, now_s: float) -> float:
        since_s, count = self._failures.get(key, (now_s, 0))
        if count < free or now_s - since_s > PERIOD_S:
            return 0.0
        return min(DELAY_S_MAX, DELAY_S_MIN * 2.0 ** min(count - free, 10))
