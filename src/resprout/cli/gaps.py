"""Gaps of a journal of events, for the commands that read one."""

import click

from resprout.cli.console import tell
from resprout.client.events import ClientEvent, EventsMissing
from resprout.client.gaps import gap_text
from resprout.client.past import EventsPage

allow_gaps_option = click.option(
    "--allow-gaps", is_flag=True, help="Go on where events are missing because the broker was down, and say so."
)


def tell_gaps(page: EventsPage) -> None:
    """One line each, on standard error."""
    for gap in page.gaps:
        _warn(gap_text(page.journal, gap))


def tell_missing(event: ClientEvent) -> None:
    """For `connect(on_event=...)`."""
    if isinstance(event, EventsMissing):
        _warn(event.reason)


def _warn(text: str) -> None:
    tell(f"resprout: warning: {text}", err=True)
