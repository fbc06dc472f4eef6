"""Who is known, and what each may do: one TOML file.

    [[identity]]
    name = "teller"
    secrets = ["SCRAM-SHA-256$4096:..."]   # verifiers of tokens or passwords, any of which will do
    certificates = ["teller"]              # or names of clients in certificates
    clients = ["teller", "teller-*"]       # what its clients may be called; else its name, and its name with a dot
    publish = ["bank/#"]
    subscribe = ["bank/+", "news/#", "of/{client}/#"]
    operate = true                         # may tell the network to forget brokers, and see what it is like
    observe = true                         # may only see what it is like: `resprout status`, the live page, metrics
    most_clients = 10                      # connected to one broker at a time
    most_subscriptions = 100               # of each of them

    [anybody]                              # whoever shows nothing; without this table nobody else is served
    subscribe = ["news/#"]

`{client}` stands for the name of the client. Anything unknown is refused, with the file and the line.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import NameRefusedError
from resprout.core.names import check_name
from resprout.edge.rights import Rights
from resprout.filters.topics import check_filter
from resprout.net.identity.proofs import SALTS_MAX
from resprout.net.identity.scram import Verifier
from resprout.net.identity.secret import read_verifier
from resprout.scenario.reader import TomlTable
from resprout.scenario.source import read_source

IDENTITIES_MAX: Final = 100_000
FILTERS_MAX: Final = 1_000
CERTIFICATES_MAX: Final = 16
CLIENT: Final = "{client}"

_RIGHTS: Final = ("publish", "subscribe", "operate", "observe")
_KEYS: Final = ("name", "secrets", "certificates", "clients", *_RIGHTS, "most_clients", "most_subscriptions")
COUNT_MAX: Final = 1_000_000


class KnownIdentity(msgspec.Struct, frozen=True):
    name: str
    clients: tuple[str, ...]
    """Names, or beginnings of names with a star behind them."""
    rights: Rights
    """With `{client}` in them."""
    secrets: tuple[Verifier, ...] = ()
    certificates: tuple[str, ...] = ()
    most_clients: int | None = None
    most_subscriptions: int | None = None

    def may_be_called(self, client: str) -> bool:
        return any(_fits(pattern, client) for pattern in self.clients)


class Rules(msgspec.Struct, frozen=True):
    identities: Mapping[str, KnownIdentity]
    anybody: Rights | None = None
    """Of whoever shows nothing; None: such clients are not served."""

    def of_certificate(self, names: Iterator[str]) -> KnownIdentity | None:
        wanted = set(names)
        return next((one for one in self.identities.values() if wanted.intersection(one.certificates)), None)

    def is_reserved(self, client: str) -> bool:
        """Whether the name belongs to somebody who is known."""
        return any(one.may_be_called(client) for one in self.identities.values())


def rights_of(rights: Rights, client: str) -> Rights:
    """Of a client of this name."""
    return Rights(
        tuple(text.replace(CLIENT, client) for text in rights.publish),
        tuple(text.replace(CLIENT, client) for text in rights.subscribe),
        rights.operate,
        rights.observe,
    )


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
    return Rules(identities, anybody)


def _identity(table: TomlTable) -> KnownIdentity:
    table.only(_KEYS)
    name = table.checked("name", lambda text: check_name(text, "identity"))
    texts = table.texts("secrets", SALTS_MAX, ())
    secrets = tuple(table.attempt(("secrets", place), read_verifier, text) for place, text in enumerate(texts))
    certificates = table.texts("certificates", CERTIFICATES_MAX, ())
    if not secrets and not certificates:
        table.fail("", "nobody could prove to be this one: give `secrets` or `certificates`")
    clients = table.texts("clients", FILTERS_MAX, (name, f"{name}.*"))
    for place, pattern in enumerate(clients):
        table.attempt(("clients", place), _check_pattern, pattern)
    most = [table.integer(key, 1, COUNT_MAX) if key in table else None for key in _KEYS[-2:]]
    return KnownIdentity(name, clients, _rights(table), secrets, certificates, *most)


def _rights(table: TomlTable) -> Rights:
    for key in ("publish", "subscribe"):
        for place, text in enumerate(table.texts(key, FILTERS_MAX, ())):
            table.attempt((key, place), check_filter, text.replace(CLIENT, "client"))
    return Rights(
        table.texts("publish", FILTERS_MAX, ()), table.texts("subscribe", FILTERS_MAX, ()),
        table.flag("operate", False), table.flag("observe", False),
    )  # fmt: skip


def _check_pattern(pattern: str) -> str:
    try:
        check_name(pattern.removesuffix("*") or "any")
    except NameRefusedError:
        raise NameRefusedError(f"{pattern!r} is no name of a client, and no beginning of one with a star") from None
    return pattern


def _fits(pattern: str, client: str) -> bool:
    return client.startswith(pattern[:-1]) if pattern.endswith("*") else client == pattern
