"""Gaps of a journal of events, for the commands that read one."""

from collections.abc import Iterable

import click

from resprout.client.events import ClientEvent, EventsMissing
from resprout.edge.messages import EventGap

allow_gaps_option = click.option(
    "--allow-gaps", is_flag=True, help="Go on where events are missing because the broker was down, and say so."
)


def tell_gaps(gaps: Iterable[EventGap]) -> None:
    """One line each, on standard error."""
    for gap in gaps:
        click.echo(f"resprout: warning: {gap.reason}", err=True)


def tell_missing(event: ClientEvent) -> None:
    """For `connect(on_event=...)`."""
    if isinstance(event, EventsMissing):
        tell_gaps((event.gap,))
