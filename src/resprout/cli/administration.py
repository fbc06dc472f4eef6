"""Commands of an operator.

Two decide about the whole network. `resprout forget`: the named brokers will never return. `resprout end-subscription`:
a durable subscription ends for all its consumers.

The others work on the files of brokers, and need no running broker. `resprout certificates`: a first set of
certificates, or more of the same authority. `resprout secret`: a token or a password for a client, and the line of a
rules file for it; or a key for a network. `resprout journal`: what the journal of a broker keeps, and whether all of it
is intact. `resprout mend`: keeps what is intact in a damaged folder.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from resprout.cli.arguments import LocalPath
from resprout.cli.console import tell, tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, connected
from resprout.core.errors import UsageError, needed_for
from resprout.core.limits import check_name
from resprout.core.partitions import check_log_name
from resprout.edge.client.questions import check_names
from resprout.journal.reading import JournalReader
from resprout.logs.records import CompactedPart, read_entry
from resprout.net.data_folder import EVENTS, JOURNAL, look_into, look_into_compacted, look_into_log, mend_folder
from resprout.net.identity.proofs import new_network_key
from resprout.net.identity.scram import new_token, verifier_of_password, verifier_of_token
from resprout.net.log_mending import ReplicaCheck
from resprout.net.log_stores import LOGS


class Forgotten(msgspec.Struct, frozen=True):
    """Whom the network does without from now on, as `--json` prints it."""

    names: tuple[str, ...]


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@access_arguments
@click.option("--force", is_flag=True, help="Forget brokers that are still heard, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def forget(names: tuple[str, ...], access: Access, force: bool, as_json: bool) -> int:
    """Tell the network that the brokers NAME... will never return.

    \b
        resprout forget b1 b2

    When more brokers fall silent than may crash at once, it could be a partition, so totals wait until they are heard
    again. If they never return, run this command at a broker of the part that continues. Name all of them at once. A
    forgotten broker that returns joins as a new one.

    With rules, only identities that may `operate` can do this; with TLS and without rules, only operators. A broker
    that is still heard is not forgotten: stop it, or use --force if it hangs and you cannot. It is then replaced, and
    joins as a new one when it listens again.
    """
    forgotten = Forgotten(check_names(names))
    run_loop(_forget(forgotten, access, force))
    if as_json:
        tell_json(forgotten)
    else:
        for name in forgotten.names:
            tell(f"{name} is forgotten")
    return 0


async def _forget(forgotten: Forgotten, access: Access, force: bool) -> None:
    async with connected(access) as client:
        await client.forget(*forgotten.names, force=force)


@click.command(name="end-subscription")
@click.argument("subscription", metavar="NAME")
@access_arguments
def end_subscription(subscription: str, access: Access) -> int:
    """End the durable subscription NAME for all its consumers, and drop its messages.

    \b
        resprout end-subscription billing

    A durable subscription without a consumer stores messages until its share is full, and then holds back publishers.
    With rules, its owner and identities that may `manage` it can end it.
    """
    check_name(subscription, "name of a durable subscription")
    run_loop(_end(subscription, access))
    tell(f"{subscription} is over")
    return 0


async def _end(name: str, access: Access) -> None:
    async with connected(access) as client:
        await client.end_subscription(name)


AUTHORITY_NAME = "ca"
"""What the authority's own files are called."""


@click.command()
@click.argument("folder", type=LocalPath(), metavar="DIR")
@click.option("--names", default="", metavar="NAME,...", help="Brokers that get a certificate.")
@click.option("--client", "clients", multiple=True, metavar="NAME", help="A client that gets one; may be repeated.")
@click.option(
    "--operator", "operators", multiple=True, metavar="NAME",
    help="A client that may operate the network where there are no rules; may be repeated.",
)  # fmt: skip
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long they are valid.")
@click.option("--renew", is_flag=True, help="Replace certificates that are there already.")
@click.option("--json", "as_json", is_flag=True, help="Print the certificates as one JSON list.")
def certificates(
    folder: Path,
    names: str,
    clients: tuple[str, ...],
    operators: tuple[str, ...],
    days: int,
    renew: bool,
    as_json: bool,
) -> int:
    """Make certificates for brokers and clients in the folder DIR, and an authority for them if it has none.

    \b
        resprout certificates certs --names b0,b1,b2 --client teller --operator admin
        resprout broker --name b0 --listen localhost:7450 --tls certs
        resprout sub 'bank/#' --tls certs --name teller
        resprout status --tls certs --name admin

    Each broker needs ca.pem and its own NAME.pem and NAME.key; clients the same, or ca.pem alone. The authority's key,
    ca.key, makes further certificates and is needed for nothing else: keep it away from the brokers.
    """
    brokers = [check_name(name.strip(), "broker name") for name in names.split(",") if name.strip()]
    others = [check_name(name, "client name") for name in clients]
    in_charge = [check_name(name, "operator name") for name in operators]
    everybody = [*brokers, *others, *in_charge]
    _check(everybody)
    with needed_for("making certificates"):
        from resprout.net.certificates import authority_of, check_free
    if not renew:
        check_free(folder, everybody)
    authority = authority_of(folder)
    made = [authority.issue(folder, "broker", name, days) for name in brokers]
    made += [authority.issue(folder, "client", name, days) for name in others]
    made += [authority.issue(folder, "operator", name, days) for name in in_charge]
    if as_json:
        tell_json(made)
    else:
        for one in made:
            tell(f"{one.role} {one.name}: {one.certificate} and {one.key}, until {one.expires}")
    return 0


def _check(names: Sequence[str]) -> None:
    if not names:
        raise UsageError("for whom? Give --names of brokers, such as --names b0,b1, --client NAME or --operator NAME")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is named twice: every broker and client has a name of its own")
        if name == AUTHORITY_NAME:
            raise UsageError(f"{name} is what the files of the authority are called: take another name")


@click.command()
@click.argument("name", required=False)
@click.option("--out", type=LocalPath(), metavar="FILE", help="Write the login there, for --login of clients.")
@click.option("--password", "is_password", is_flag=True, help="Ask for a password, or read it from standard input.")
@click.option(
    "--network", type=LocalPath(), metavar="FILE",
    help="Make a key for the brokers of a network instead, for --network-key, and write it there.",
)  # fmt: skip
def secret(name: str | None, out: Path | None, is_password: bool, network: Path | None) -> int:
    """Make a secret for the identity NAME, and print its entry for the rules file.

    \b
        resprout secret teller --out teller.login >> rules.toml
        resprout sub 'bank/#' --login teller.login
        resprout secret --network network.key

    Without --password the secret is a random token, which only FILE holds. The output has only its verifier, which does
    not allow a login. No broker ever sees the secret.
    """
    if network is not None:
        if name is not None or out is not None or is_password:
            raise UsageError("--network makes the key of a network, which belongs to no identity: give nothing else")
        _write_secret(network, f"{new_network_key()}\n", "--network")
        return 0
    if name is None:
        raise UsageError("whose secret is it? Give the name of an identity, or --network FILE")
    check_name(name, "identity")
    if not is_password and out is None:
        raise UsageError("where is the token to be written? Give --out FILE, or --password for one that you choose")
    text = _ask() if is_password else new_token()
    verifier = verifier_of_password(text) if is_password else verifier_of_token(text)
    if out is not None:
        _write_secret(out, f"{name}:{text}\n", "--out")
    tell_lines(("[[identity]]", f'name = "{name}"', f'secrets = ["{verifier}"]', "publish = []", "subscribe = []"))
    return 0


def _ask() -> str:
    if sys.stdin.isatty():
        answer = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return str(answer)
    return sys.stdin.readline().rstrip("\n")


def _write_secret(path: Path, text: str, option: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{option} {path}: the file exists already") from None
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror or error}") from None


@click.command()
@click.argument("folder", type=LocalPath(), metavar="DIR")
@click.option("--events", is_flag=True, help="Tell of the journal of events instead of the log.")
@click.option("--log", metavar="NAME", help="Tell of the replica of this log, or of a partition such as bank~3.")
@click.option("--verify", is_flag=True, help="Read everything, and compare it with its checksums.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def journal(folder: Path, events: bool, log: str | None, verify: bool, as_json: bool) -> None:
    """Show the content of DIR, the --data folder of a broker, which may be running.

    Damage is reported with its file, byte and position, and exit status 2; `resprout mend DIR` keeps the intact
    records.
    """
    if events and log is not None:
        raise UsageError("--events and --log name different journals: give one of them")
    if log is not None:
        reader = look_into_log(folder, check_log_name(log))
        part, kept = look_into_compacted(folder, log)
        facts = _facts(reader) | _offsets(reader, part)
    else:
        reader = look_into(folder, EVENTS if events else JOURNAL)
        facts, kept = _facts(reader), iter(())
    if verify:
        facts["verified"] = sum(1 for _ in reader.all_from(reader.first)) + sum(1 for _ in kept)
    if as_json:
        tell_json(facts)
        return
    tell(
        f"{folder}: positions {facts['first']} to {facts['next']} in {facts['segments']} segments,"
        f" {facts['bytes']} bytes; written {_when(facts['first_us'])} to {_when(facts['last_us'])}"
    )
    if log is not None:
        first, end = facts["first_offset"], facts["end_offset"]
        upto = f", compacted up to {facts['compacted']}" if "compacted" in facts else ""
        tell(f"{folder}: log {log}: offsets {f'{first} to {end - 1}' if end > first else 'none'}{upto}")
    if verify:
        tell(f"{folder}: {facts['verified']} records are intact")


def _facts(reader: JournalReader) -> dict[str, Any]:
    indexes = reader.indexes
    return {
        "first": reader.first,
        "next": reader.end,
        "segments": len(indexes),
        "bytes": sum(index.size for index in indexes),
        "first_us": indexes[0].first_us,
        "last_us": indexes[-1].last_us,
    }


def _offsets(reader: JournalReader, part: CompactedPart) -> dict[str, Any]:
    """Return the first offset of a replica, and the one behind the last. `part`: its compacted part."""
    ends = [reader.read(position, 1)[:1] for position in (reader.first, reader.end - 1) if reader.end > reader.first]
    entries = [read_entry(kept.record) for found in ends for kept in found]
    if part.through:
        last = entries[-1] if entries and entries[-1] is not None else None
        end = max(part.end, last.following if last is not None else 0)
        return {"first_offset": 0, "end_offset": end, "compacted": part.end}
    if not entries or entries[0] is None or entries[-1] is None:
        return {"first_offset": 0, "end_offset": 0}
    return {"first_offset": entries[0].offset, "end_offset": entries[-1].following}


def _when(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).isoformat(sep=" ", timespec="seconds")


@click.command()
@click.argument("folder", type=LocalPath(), metavar="DIR")
@click.option("--discard-replica", "discarded", multiple=True, metavar="LOG",
              help="Set the replica of this log aside; may be repeated.")  # fmt: skip
def mend(folder: Path, discarded: tuple[str, ...]) -> int:
    """Recover the intact records in DIR, the --data folder of a broker that refuses to start with it.

    Damaged segments stay beside them under other names, and records keep their positions. The broker may or may not
    have forwarded the damaged records before it stopped; compare the receipts of publishers. Stop the broker first.

    Each damaged segment is rewritten beside the damaged file, so DIR needs as much free space as its intact records
    take: at most the size of the damaged segments. Without it nothing is changed, and the error has the amount.

    A damaged replica of a log is set aside if other brokers have replicas: the broker then begins with an empty one,
    and fetches the log from them. Otherwise nothing is changed, and the exit status is 1; --discard-replica sets it
    aside all the same.
    """
    journals, replicas = mend_folder(folder, discarded)
    for name, done in journals:
        place = folder / name
        kept = "1 record is" if done.records == 1 else f"{done.records} records are"
        if not done.asides:
            tell(f"{place}: not damaged; {kept} kept there")
            continue
        asides = ", ".join(str(place / aside) for aside in done.asides)
        gone = ", ".join(f"{begin}" if end == begin + 1 else f"{begin}-{end - 1}" for begin, end in done.missing)
        tell(
            f"{place}: {kept} kept; positions that are missing: {gone or 'none'}; damaged bytes,"
            f" {done.damaged_bytes} of them, are in {asides}"
        )
    tell_lines([line for one in replicas for line in _replica_lines(folder, one)])
    return 1 if any(one.damage and not one.asides for one in replicas) else 0


def _replica_lines(folder: Path, one: ReplicaCheck) -> list[str]:
    name = f"{folder / LOGS}: replica of the log {one.log}"
    if one.asides:
        why = one.damage or "discarded"
        whence = f" from {', '.join(one.others)}" if one.others else " from other replicas, if there are any"
        line = f"{name}: {why}; it is set aside in {', '.join(one.asides)}: the broker fetches the log anew{whence}"
    elif one.damage:
        line = (
            f"{name}: {one.damage}; no other replica is known, so nothing was changed: --discard-replica {one.log} sets"
            " it aside, and its messages are in no other place if it is the only one"
        )
    else:
        line = f"{name}: not damaged"
    return [*[f"{name}: {torn}" for torn in one.torn], line]
