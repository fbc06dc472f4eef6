"""`resprout secret`: a token or a password for a client, and what the rules file holds of it."""

import os
import sys
from pathlib import Path

import click

from resprout.cli.console import tell_lines
from resprout.cli.paths import LocalPath
from resprout.core.errors import UsageError
from resprout.core.names import check_name
from resprout.net.identity.secret import check_secret, digest_of_password, digest_of_token, new_token


@click.command()
@click.argument("name")
@click.option("--out", type=LocalPath(), metavar="FILE", help="Write the login there, for --login of clients.")
@click.option("--password", "is_password", is_flag=True, help="Ask for a password, or read it from standard input.")
def secret(name: str, out: Path | None, is_password: bool) -> int:
    """Make a secret for the identity NAME, and print what belongs into the rules file.

    \b
        resprout secret teller --out teller.login >> rules.toml
        resprout sub 'bank/#' --login teller.login

    Without --password it is a token, which nobody has to remember: it is in FILE, and nowhere else. What is printed
    holds only its digest.
    """
    check_name(name, "identity")
    if not is_password and out is None:
        raise UsageError("where is the token to be written? Give --out FILE, or --password for one that you choose")
    text = check_secret(_ask()) if is_password else new_token()
    digest = digest_of_password(text) if is_password else digest_of_token(text)
    if out is not None:
        _write(out, f"{name}:{text}\n")
    tell_lines(("[[identity]]", f'name = "{name}"', f'secrets = ["{digest}"]', "publish = []", "subscribe = []"))
    return 0


def _ask() -> str:
    if sys.stdin.isatty():
        answer = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return str(answer)
    return sys.stdin.readline().rstrip("\n")


def _write(path: Path, text: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"--out {path}: it is there already") from None
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror or error}") from None
