"""`resprout certificates`: a first set of certificates, or more of the same authority."""

from collections.abc import Sequence
from pathlib import Path

import click

from resprout.cli.console import tell, tell_json
from resprout.cli.paths import LocalPath
from resprout.core.errors import UsageError
from resprout.core.names import check_name

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
        from resprout.net.tls.issue import authority_of, check_free
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
