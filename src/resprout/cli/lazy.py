"""Verbs that are imported when they are used: `resprout pub` must not wait for what only `resprout audit` needs."""

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """A group of commands, each given as `module:attribute`."""

    def __init__(self, *, verbs: Mapping[str, str], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._verbs = dict(verbs)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._verbs:
            return None
        module, _, attribute = self._verbs[name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), f"{self._verbs[name]} is no command"
        return command
