"""`resprout status`: the whole tree, as its brokers tell it."""

import click

from resprout.cli.asking import AskingCommand
from resprout.cli.console import tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments
from resprout.cli.tree_view import heading, news_lines, tree_lines


@click.command()
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def status(access: Access, as_json: bool) -> int:
    """Show the tree that a broker is in: names, addresses, lives, clients, rates, and who repairs whom.

    \b
        resprout status --server b0.example:7450
        resprout status --server b0.example:7450 --tls certs --login operator.login

    Every broker is asked by itself, so all of them must be in reach. On this machine everybody may ask; from elsewhere
    only who has a certificate, or whom the rules let `observe` or `operate`.

    A notice tells that what is called safe rests on fewer than f + 1 brokers, or that a broker once known here is in
    another network. Exit status 1 when there is a notice, or a broker that does not answer.
    """
    found = run_loop(AskingCommand(access).survey())
    if as_json:
        tell_json(found)
    else:
        tell_lines((heading(found), *tree_lines(found), *news_lines(found)))
    return 1 if found.notices or found.missing else 0
