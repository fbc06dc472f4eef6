"""Lines on standard error while the publications of a command are held: for whom, and since when."""

import asyncio
import time
from typing import Final

from resprout.cli.console import tell
from resprout.client.events import ClientEvent, PublishingHeld
from resprout.client.receipts import Receipt

LOOK_SECONDS: Final = 0.2
"""How often to look whether the publications still wait."""


class HeldNotices:
    """Prints who is held, for whom and since when, and prints again when the reason changes or publishing goes on."""

    def __init__(self) -> None:
        self.name = ""
        """The publishing client."""
        self.latest: Receipt | None = None
        """The latest publication. It waits while any publication before it waits."""
        self._refusal = ""
        """Why the broker takes no publications at all."""
        self._told = ""
        self._since_s = 0.0

    def on_event(self, event: ClientEvent) -> None:
        if isinstance(event, PublishingHeld):
            self._refusal = event.reason
            self.look()

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Print a line if the reason has changed."""
        reason = self._refusal or (self.latest.waiting_for if self.latest is not None else "")
        if reason == self._told:
            return
        if not self._told:
            self._since_s = time.time()
        if reason:
            since = time.strftime("%H:%M:%S", time.localtime(self._since_s))
            tell(f"publisher {self.name} is held since {since}: {reason}", err=True)
        else:
            tell(f"publisher {self.name} goes on after {time.time() - self._since_s:.1f} s", err=True)
        self._told = reason
