"""Verbs that are imported when they are used: `resprout pub` must not wait for what only `resprout audit` needs."""

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """A group of commands that imports a command only to run it or to print its own help.

    The command `end-subscription` is `end_subscription` in the module `resprout.cli.end_subscription`.
    """

    def __init__(self, *, verbs: Mapping[str, str], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._verbs = dict(verbs)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._verbs:
            return None
        attribute = name.replace("-", "_")
        command = getattr(importlib.import_module(f"resprout.cli.{attribute}"), attribute)
        assert isinstance(command, click.Command), f"{name} is no command"
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._verbs.items()))
