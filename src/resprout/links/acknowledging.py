"""When a peer hears how far this side has come: at once where it asked or much has come, otherwise with whatever is
said to it next, and after a while without company.

What costs nothing (receipts, acknowledgements of deliveries) takes nobody's room, so between a client and its broker
the news that it has come may wait longer (`free_ack_delay_us`): as a rule something else is said before, and takes it
along.
"""

from resprout.core.contract import Effect, SetTimer, Timer
from resprout.links.link import LinkSession
from resprout.links.options import LinkOptions
from resprout.links.timers import AcknowledgeDue, FreeAcknowledgeDue

_ACKNOWLEDGE = AcknowledgeDue()
_ACKNOWLEDGE_FREE = FreeAcknowledgeDue()


class Acknowledging:
    def __init__(self, options: LinkOptions, is_client: bool) -> None:
        self._delay_us = options.ack_delay_us
        self._free_delay_us = options.free_ack_delay_us
        self._is_client = is_client
        self._soon: list[LinkSession] = []
        self._late: list[LinkSession] = []

    def answer(self, link: LinkSession, now_us: int, out: list[Effect]) -> None:
        """After what came in a frame has been heard, and what was said because of it has left."""
        asked, again = link.asked, link.asked_again
        link.asked = link.asked_again = False
        if not link.connection:
            return
        if link.received != link.told_received:
            if asked or link.acknowledge_now:
                link.nod(now_us, out)
            elif not link.ack_due:
                self._wait(link, now_us, out)
        elif again:
            link.nod(now_us, out)

    def over(self, timer: Timer, now_us: int, out: list[Effect]) -> None:
        """Whoever has not heard it meanwhile hears it now."""
        if isinstance(timer, FreeAcknowledgeDue):
            links, self._late = self._late, []
            for link in links:
                link.free_ack_due = False
        else:
            links, self._soon = self._soon, []
            for link in links:
                link.ack_due = False
        for link in links:
            if link.connection and link.received != link.told_received:
                link.acknowledge(now_us, out)

    def _wait(self, link: LinkSession, now_us: int, out: list[Effect]) -> None:
        patience_us = self._free_delay_us
        if patience_us is not None and link.received_bytes == link.told_bytes and self._is_with_client(link):
            if not link.free_ack_due:
                link.free_ack_due = True
                if not self._late:
                    out.append(SetTimer(_ACKNOWLEDGE_FREE, now_us + patience_us))
                self._late.append(link)
        else:
            link.ack_due = True
            if not self._soon:
                out.append(SetTimer(_ACKNOWLEDGE, now_us + self._delay_us))
            self._soon.append(link)

    def _is_with_client(self, link: LinkSession) -> bool:
        return self._is_client or link.role == "client"
