"""Messages other than bundles to neighbours: in order with each other, or in order with the log.

A part sends a message to a broker in one of four ways:

- `Peers.post`: at once, to any broker, in a session that is opened if there is none;
- `outbound.append`: to a neighbour, at the end of the step, if its link is open (`say_all`). Messages for a neighbour
  in repair are kept for the broker that replaces it;
- `say_in_order`: to a neighbour, behind everything that is in the log now;
- `Outbox.pass_by`: reports that let a peer free room, ahead of the messages that wait for room.

Bundles themselves leave through `forwarding`. All of it goes through the outbox, in order for each peer.
"""

from resprout.core.contract import ProtocolMessage
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.spread.messages import Interested, Outbound, Uninterested
from resprout.stacks.peers import Outbox
from resprout.stacks.resprout.messages import ClientBegan, ListenersChanged

TO_ANY_NEIGHBOUR = (Interested, Uninterested, ListenersChanged, ClientBegan)
"""Messages that the successor of a dead neighbour must hear in its place."""


class Speaking:
    """Sends messages other than bundles to neighbours."""

    def __init__(
        self,
        outbox: Outbox,
        links: dict[str, Link],
        outbound: Outbound,
        log: Log,
    ) -> None:
        self._outbox = outbox
        self._links = links
        self._outbound = outbound
        self._log = log

    def say_all(self) -> None:
        """Send everything in `outbound`. A neighbour whose link is in repair misses nothing: the broker that takes
        its place hears it."""
        while self._outbound:
            outbound = self._outbound[:]
            self._outbound.clear()
            for name, message in outbound:
                link = self._links.get(name)
                if link is None:
                    continue
                if link.open:
                    self._outbox.send(name, message)
                elif link.unsaid is not None and isinstance(message, TO_ANY_NEIGHBOUR):
                    link.unsaid.append(message)  # answers to the dead are for nobody else

    def say_in_order(self, name: str, message: ProtocolMessage) -> None:
        """Send a message to a neighbour behind everything that is in the log now, within its window.

        Totals need this order: `Closed` follows all that it closes behind, and `Submit` follows what its publisher
        had published before. A broker that has the one has the other, even if all others die.
        """
        link = self._links.get(name)
        if link is None or not link.open:
            return
        if link.cursor is not None:
            link.after.append((self._log.next_no, message))
        elif self._outbox.send(name, message) <= 0:
            link.cursor = self._log.next_no

    def say_after(self, link: Link, place: int) -> None:
        """Send messages whose place in the log is not after this one, as far as there is room."""
        after, outbox = link.after, self._outbox
        while after and after[0][0] <= place and (outbox.room(link.name) > 0 or not after[0][1].cost):
            outbox.send(link.name, after.popleft()[1])
