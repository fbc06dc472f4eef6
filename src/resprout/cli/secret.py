"""`resprout secret`: a token or a password for a client, and what the rules file holds of it; or a network's key."""

import os
import sys
from pathlib import Path

import click

from resprout.cli.console import tell_lines
from resprout.cli.paths import LocalPath
from resprout.core.errors import UsageError
from resprout.core.names import check_name
from resprout.net.identity.network_key import new_network_key
from resprout.net.identity.secret import new_token, verifier_of_password, verifier_of_token


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
        _write(network, f"{new_network_key()}\n", "--network")
        return 0
    if name is None:
        raise UsageError("whose secret is it? Give the name of an identity, or --network FILE")
    check_name(name, "identity")
    if not is_password and out is None:
        raise UsageError("where is the token to be written? Give --out FILE, or --password for one that you choose")
    text = _ask() if is_password else new_token()
    verifier = verifier_of_password(text) if is_password else verifier_of_token(text)
    if out is not None:
        _write(out, f"{name}:{text}\n", "--out")
    tell_lines(("[[identity]]", f'name = "{name}"', f'secrets = ["{verifier}"]', "publish = []", "subscribe = []"))
    return 0


def _ask() -> str:
    if sys.stdin.isatty():
        answer = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return str(answer)
    return sys.stdin.readline().rstrip("\n")


def _write(path: Path, text: str, option: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{option} {path}: it is there already") from None
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror or error}") from None
