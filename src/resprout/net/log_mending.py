"""Replicas of logs with damaged stores: found, and set aside, so that their brokers begin with empty disks.

A replica that has lost some of its votes must not vote again, because it may contradict itself. One that has lost
entries could vote, but not serve them. In both cases the replica begins anew: without its stores it has a new identity,
fetches the log from the other replicas, and takes the place of the old identity (`docs/logs.md`). That needs a majority
of the others, so a replica is set aside only if its votes name others, or if the operator says so.

A write that a crash has torn at the end of a store is no damage: it is cut off, as when the broker starts.
"""

import secrets
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.journal.interface import DamagedError, DiskError, JournalOptions
from resprout.journal.journal import open_journal
from resprout.logs.messages import broker_of
from resprout.logs.records import read_votes
from resprout.net.disk import RealFiles, sync_folder
from resprout.net.log_stores import LOGS
from resprout.replicas.ledger import Ledger

_OPTIONS: Final = JournalOptions()
VOTES: Final = "votes"
KINDS: Final = ("entries", "compacted0", "compacted1", VOTES)
"""Ends of the names of stores. The votes are set aside last: until then the replica is the one that it was."""


class ReplicaCheck(msgspec.Struct, frozen=True):
    """What was found of one replica, and done."""

    log: str
    """Name of the log, with its generation if a command has created it."""
    torn: tuple[str, ...] = ()
    """A line for each store whose torn end was cut off."""
    damage: str = ""
    """The first damage that was found; empty if there is none."""
    others: tuple[str, ...] = ()
    """Brokers of the other members, as far as the votes can be read."""
    asides: tuple[str, ...] = ()
    """Where the stores lie now, if they were set aside."""


def mend_logs(path: Path, discarded: Collection[str] = ()) -> list[ReplicaCheck]:
    """Read all stores of logs in the data folder of a broker that is stopped, and set damaged replicas aside.
    `discarded`: logs whose replicas are set aside also if no others are known. Raises UsageError if one of them is not
    here."""
    found = sorted(_replicas(path / LOGS).items())
    unknown = [log for log in discarded if not any(_is_of(log, key) for key, _ in found)]
    if unknown:
        kept = ", ".join(key for key, _ in found) or "none"
        raise UsageError(f"{path}: this broker keeps no replica of the log {unknown[0]}; it keeps: {kept}")
    return [_mend(key, stores, any(_is_of(log, key) for log in discarded)) for key, stores in found]


def _is_of(log: str, key: str) -> bool:
    return key == log or (key.startswith(f"{log}.") and key.removeprefix(f"{log}.").isdecimal())


def _replicas(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the stores of each replica by their kind, by name of the log."""
    found: dict[str, dict[str, Path]] = {}
    for store in folder.iterdir() if folder.is_dir() else ():
        key, _, kind = store.name.rpartition(".")
        if key and kind in KINDS and store.is_dir():
            found.setdefault(key, {})[kind] = store
    return found


def _mend(key: str, stores: dict[str, Path], is_discarded: bool) -> ReplicaCheck:
    torn: list[str] = []
    damage, others = "", tuple[str, ...]()
    for kind in KINDS:
        if kind in stores:
            try:
                records = _read(stores[kind], torn)
                if kind == VOTES:
                    others = _others(records)
            except (DamagedError, ValueError) as error:
                damage = damage or str(error)
    if not damage and not is_discarded:
        return ReplicaCheck(key, tuple(torn))
    asides = tuple(_set_aside(stores)) if others or is_discarded else ()
    return ReplicaCheck(key, tuple(torn), damage, others, asides)


def _read(store: Path, torn: list[str]) -> list[bytes]:
    """Return the records of a store that are not forgotten, after reading all. Raises DamagedError."""
    files = RealFiles(store)
    try:
        journal = open_journal(files, _OPTIONS, lambda: secrets.randbits(32), time.time_ns() // 1_000)
        if journal.warning:
            torn.append(journal.warning)
        reader = journal.reader()
        return [kept.record for kept in reader.all_from(reader.first) if kept.position >= journal.floor]
    finally:
        files.close()


def _others(records: list[bytes]) -> tuple[str, ...]:
    """Return the brokers of the other members. Raises ValueError for records that are none of a replica."""
    kept = read_votes(records)
    if kept.identity is None:
        return ()
    ledger = Ledger(kept.identity.founders)
    ledger.recover(kept.ledger)
    return tuple([broker_of(member) for member in ledger.members if member != kept.identity.identity])


def _set_aside(stores: dict[str, Path]) -> Iterator[str]:
    for kind in KINDS:
        if kind in stores:
            number = 1
            while (aside := stores[kind].with_name(f"{stores[kind].name}.damaged-{number}")).exists():
                number += 1
            try:
                stores[kind].rename(aside)
                sync_folder(aside.parent)
            except OSError as error:
                raise DiskError(f"{stores[kind]}: {error.strerror or error}", error.errno or 0) from None
            yield str(aside)
