"""The `resprout` command: its verbs, and the one place where an error becomes a line and an exit status.

0: fine. 1: a guarantee was violated or the run failed. 2: the input was wrong. 3: no broker could be reached, or it
refuses this client. One line on stderr says what and where.

A verb is imported when it is used: `resprout pub` must not wait for what only `resprout audit` needs.

Commands that talk to a broker take defaults from a configuration file:

    server = "b0.example.org:7450,b1.example.org:7450"
    tls = "/home/ann/.config/resprout/certificates"
    login = "/home/ann/.config/resprout/ann.login"
    name = "ann"

The file is `$RESPROUT_CONFIG`, or `resprout/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`. Environment variables
and the command line override it. Relative paths are relative to the file.
"""

import importlib
import io
import os
import sys
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from resprout import __version__
from resprout.cli.console import escape_strays, tell, tell_lines
from resprout.core.errors import NoBrokerError, ResproutError, UsageError, needed_for

CONFIG_KEYS: Final = ("server", "tls", "login", "name")
_CONFIG_PATHS: Final = ("tls", "login")


def config_path() -> Path | None:
    """Return the file to read, or None when there is none. UsageError when the file that was named is missing."""
    named = os.environ.get("RESPROUT_CONFIG")
    if named:
        if not Path(named).is_file():
            raise UsageError(f"RESPROUT_CONFIG={named}: there is no such file")
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    path = Path(folder) / "resprout" / "config.toml"
    return path if path.is_file() else None


def read_defaults(path: Path) -> dict[str, str]:
    """Return the values of the file. UsageError, which names the file and the key, for a wrong one."""
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    for key, value in values.items():
        if key not in CONFIG_KEYS:
            raise UsageError(f"{path}: unknown key {key!r}; there are {', '.join(CONFIG_KEYS)}")
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{path}: {key} = {value!r} must be a text that is not empty")
    return {key: str(path.parent / value) if key in _CONFIG_PATHS else value for key, value in values.items()}


class Verb(NamedTuple):
    module: str
    """The module of `resprout.cli` that defines the command."""
    summary: str


SECTIONS: Final = {
    "Publish and subscribe": ("pub", "sub", "request", "reply", "read", "kv"),
    "Run brokers": ("up", "broker", "tap"),
    "Try faults on `resprout up`": ("freeze", "resume", "crash", "restart"),
    "Look at a network": ("status", "subscriptions", "peek", "dead-letters", "log", "top", "who", "trace"),
    "Administer a network": ("certificates", "secret", "end-subscription", "purge", "forget", "journal", "mend"),
    "Run and judge scenarios": ("sim", "run", "swarm", "audit", "watch", "bench"),
    "Collect runs": ("archive", "sweep", "report", "conclude"),
}
VERBS: Final = {
    "broker": Verb("broker", "Run one broker of a tree until SIGTERM"),
    "up": Verb("run", "Run the brokers of SCENARIO, each in a process of its own"),
    "freeze": Verb("faults", "Freeze the broker NAME of a running `resprout up`"),
    "resume": Verb("faults", "Let the frozen broker NAME continue"),
    "crash": Verb("faults", "Kill the broker NAME of a running `resprout up`"),
    "restart": Verb("faults", "Start the broker NAME again"),
    "tap": Verb("broker", "Add a broker to a tree that stores the events of topics"),
    "pub": Verb("publish", "Publish PAYLOAD on TOPIC"),
    "sub": Verb("subscribe", "Print messages on topics that match FILTER"),
    "request": Verb("publish", "Publish a request with PAYLOAD on TOPIC"),
    "reply": Verb("publish", "Answer requests on topics that match FILTER"),
    "read": Verb("subscribe", "Print stored events of topics that match FILTER"),
    "kv": Verb("kv", "Read, write and watch the keys of a BUCKET"),
    "status": Verb("status", "Show the tree that a broker is in"),
    "subscriptions": Verb("queues", "Show every durable subscription and group"),
    "peek": Verb("queues", "Show the next messages that wait for the durable subscription NAME"),
    "dead-letters": Verb("queues", "Show the dead letters of the durable subscription NAME, or replay them"),
    "log": Verb("logs", "Create, show, change and delete the logs of a network"),
    "top": Verb("top", "Show rates and queues of all brokers, until Ctrl-C"),
    "who": Verb("status", "Show who receives a publication on TOPIC"),
    "trace": Verb("status", "Show the path of the publication ID"),
    "certificates": Verb("administration", "Make certificates for brokers and clients"),
    "secret": Verb("administration", "Make a secret for the identity NAME"),
    "end-subscription": Verb("administration", "End the durable subscription NAME"),
    "purge": Verb("queues", "Drop all messages that wait for the durable subscription NAME"),
    "forget": Verb("administration", "Tell the network that the brokers NAME... will never return"),
    "journal": Verb("administration", "Show the content of DIR, the --data folder of a broker"),
    "mend": Verb("administration", "Recover the intact records in DIR"),
    "sim": Verb("simulate", "Run SCENARIO in virtual time"),
    "run": Verb("run", "Run SCENARIO with real processes over TCP on this machine"),
    "swarm": Verb("simulate", "Draw scenarios from seeds, run them in virtual time"),
    "audit": Verb("audit", "Judge the trace in DIR, or all runs of the archive in DIR"),
    "archive": Verb("archives", "Add traces to ARCHIVE"),
    "sweep": Verb("archives", "Run the grid of scenarios in FILE as Spark tasks"),
    "report": Verb("archives", "Write a page about the runs in DIR, traces or archives"),
    "conclude": Verb("archives", "Archive the run in TRACE, judge it, measure it and draw it"),
    "watch": Verb("audit", "Judge a run while it happens"),
    "bench": Verb("bench", "Measure the rate and latency of brokers on this machine"),
}
"""With summaries for `resprout --help`, which prints them without importing any verb."""


CLIENT_VERBS: Final = (
    *SECTIONS["Publish and subscribe"], *SECTIONS["Look at a network"], "end-subscription", "purge", "forget",
)  # fmt: skip
"""These read the configuration file (`read_defaults`)."""


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
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        with needed_for(f"resprout {name}"):
            module = importlib.import_module(f"resprout.cli.{VERBS[name].module}")
        command = getattr(module, name.replace("-", "_"))
        assert isinstance(command, click.Command), f"{name} is no command"
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs of each section with their summaries."""
        widest = max(map(len, VERBS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), VERBS[name].summary) for name in names])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="resprout", message="%(prog)s %(version)s")
@click.pass_context
def command(context: click.Context) -> None:
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

    A trace needs `pip install 'resprout[trace]'`. The file ~/.config/resprout/config.toml, or RESPROUT_CONFIG, may hold
    `server`, `tls`, `login` and `name` for the commands that talk to a broker.

    Exit status: 0 success, 1 failure, 2 wrong usage, 3 no broker could be reached, or it refuses this client.
    """
    if context.invoked_subcommand in CLIENT_VERBS and (path := config_path()) is not None:
        values: dict[str, Any] = dict(read_defaults(path))
        if "server" in values:
            values["server"] = [values["server"]]
        invoked = context.command.get_command(context, context.invoked_subcommand)  # type: ignore[attr-defined]
        if isinstance(invoked, click.Group):
            values = dict.fromkeys(invoked.commands, values)
        context.default_map = {context.invoked_subcommand: values}


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
    except NoBrokerError as error:
        return _complain(str(error), 3)
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
