"""`resprout certificates`: a first set of certificates, or more of the same authority.
`resprout secret`: a token or a password for a client, and the line of a rules file for it; or a key for a network.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from resprout.cli.arguments import LocalPath
from resprout.cli.console import tell, tell_json, tell_lines
from resprout.core.errors import UsageError
from resprout.core.names import check_name
from resprout.net.identity.proofs import new_network_key
from resprout.net.identity.scram import new_token, verifier_of_password, verifier_of_token

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
@click.option("--json", "as_json", is_flag=True, help="Print what was made as one JSON list.")
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
        resprout broker --name b0 --listen :7450 --tls certs
        resprout sub 'bank/#' --tls certs --name teller
        resprout forget b2 --tls certs --name admin

    Each broker needs ca.pem and its own NAME.pem and NAME.key; clients the same, or ca.pem alone. The authority's key,
    ca.key, makes further certificates and is needed for nothing else: keep it away from the brokers.
    """
    brokers = [check_name(name.strip(), "broker name") for name in names.split(",") if name.strip()]
    others = [check_name(name, "client name") for name in clients]
    in_charge = [check_name(name, "operator name") for name in operators]
    everybody = [*brokers, *others, *in_charge]
    _check(everybody)
    try:
        from resprout.net.certificates import authority_of, check_free
    except ImportError:
        raise UsageError("making certificates needs `cryptography`: pip install 'resprout[secure]'") from None
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
    """Make a secret for the identity NAME, and print what belongs into the rules file.

    \b
        resprout secret teller --out teller.login >> rules.toml
        resprout sub 'bank/#' --login teller.login
        resprout secret --network network.key

    Without --password it is a token, which nobody has to remember: it is in FILE, and nowhere else. What is printed
    holds only its verifier: nobody can log in with that, and no broker ever sees the secret itself.
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
        raise UsageError(f"{option} {path}: it is there already") from None
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror or error}") from None
