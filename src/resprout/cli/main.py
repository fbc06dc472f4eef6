"""The `resprout` command: its verbs, and the one place where an error becomes a line and an exit status.

0: fine. 1: a guarantee was violated or the run failed. 2: the input was wrong; one line on stderr says what and where.

A verb is imported when it is used: `resprout pub` must not wait for what only `resprout audit` needs.
"""

import importlib
import io
import os
import sys
from typing import Final, NamedTuple

import click

from resprout import __version__
from resprout.cli.console import escape_strays, tell, tell_lines
from resprout.core.errors import ResproutError, UsageError


class Verb(NamedTuple):
    module: str
    """The module of `resprout.cli` that defines the command."""
    summary: str


VERBS: Final = {
    "broker": Verb("broker", "Run one broker of a tree until SIGTERM"),
    "up": Verb("up", "Run the brokers of SCENARIO, each in a process of its own"),
    "tap": Verb("tap", "Add a broker to a tree that keeps the events of topics"),
    "pub": Verb("publish", "Publish PAYLOAD on TOPIC"),
    "sub": Verb("subscribe", "Print what is published on topics that match FILTER"),
    "read": Verb("subscribe", "Print what the broker keeps of topics that match FILTER"),
    "status": Verb("status", "Show the tree that a broker is in"),
    "top": Verb("top", "Show what the brokers of a tree do, until Ctrl-C"),
    "who": Verb("routes", "Show who receives a publication on TOPIC"),
    "trace": Verb("routes", "Show where the publication ID went"),
    "certificates": Verb("credentials", "Make certificates for brokers and clients"),
    "secret": Verb("credentials", "Make a secret for the identity NAME"),
    "end-subscription": Verb("administration", "End the durable subscription NAME"),
    "forget": Verb("administration", "Tell the network that the brokers NAME... will never return"),
    "journal": Verb("data_folder", "Tell what is kept in DIR, the --data folder of a broker"),
    "mend": Verb("data_folder", "Keep the records that are intact in DIR"),
    "sim": Verb("simulate", "Run SCENARIO in virtual time"),
    "run": Verb("run", "Run SCENARIO with real processes over TCP on this machine"),
    "swarm": Verb("simulate", "Draw scenarios from seeds, run them in virtual time"),
    "audit": Verb("audit", "Judge the trace in DIR, or all runs of the archive in DIR"),
    "archive": Verb("archives", "Add traces to ARCHIVE"),
    "sweep": Verb("sweep", "Run the grid of scenarios in FILE as Spark tasks"),
    "report": Verb("archives", "Show what the runs in DIR came to, traces or archives"),
    "conclude": Verb("archives", "Archive the run in TRACE, judge it, measure it and draw it"),
    "watch": Verb("watch", "Judge a run while it happens"),
    "bench": Verb("bench", "Measure how fast brokers on this machine are"),
}
"""In the order of `resprout --help`. Each summary starts the help of its verb, so that the list can be printed without
importing any verb."""


class _Verbs(click.Group):
    """The commands in `VERBS`, each imported only to run it or to print its own help.

    The command `end-subscription` is `end_subscription` in its module.
    """

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # click would make a failure of it
            _hush()
            return 0

    def list_commands(self, context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module = importlib.import_module(f"resprout.cli.{VERBS[name].module}")
        command = getattr(module, name.replace("-", "_"))
        assert isinstance(command, click.Command), f"{name} is no command"
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="resprout", message="%(prog)s %(version)s")
def command() -> None:
    """A publish/subscribe broker tree that grows back.

    Run a small tree of brokers, and talk through it from two other terminals:

    \b
        resprout up
        resprout sub 'news/#'
        resprout pub news/today 'it rains'

    Draw a scenario from a seed, run it in virtual time and judge what happened:

    \b
        resprout sim --draw 1 --trace out/drawn
        resprout audit out/drawn
    """


def main(arguments: list[str] | None = None) -> None:
    """Runs the command and exits."""
    escape_strays()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Runs the command; the exit status."""
    try:
        status = command.main(args=arguments, prog_name="resprout", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        tell_lines(error.format_message().split("\n"), err=True)
        return 2
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except UsageError as error:
        return _complain(str(error), 2)
    except ResproutError as error:
        return _complain(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        _hush()
        return 0
    except OSError as error:  # a full disk, a device that is gone: what can be foreseen was said where it happened
        _hush()
        return _complain(str(error), 1)
    return status if isinstance(status, int) else 0


def _complain(message: str, status: int) -> int:
    tell(f"resprout: {' '.join(message.split())}", err=True)
    return status


def _hush() -> None:
    """Whoever read our output has enough, or cannot take it: nothing more may be written, not even as Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
