"""What of a session outlives its connections."""

from resprout.mqtt.outgoing import Outgoing
from resprout.mqtt.records import Asked, Inbound
from resprout.mqtt.subscriptions import Subscriptions


class SessionState:
    """The driver keeps it as long as the session lives, and hands it to the machine of the next connection.

    Outcomes of the tree are for the session: the driver gives them to the machine that has the state, even if another
    one asked. Tokens are of the session, and never used twice.
    """

    __slots__ = (
        "asked", "client_id", "connection", "name", "outgoing", "publications", "received", "subscriptions", "token",
    )  # fmt: skip

    def __init__(self, client_id: str, name: str) -> None:
        self.client_id = client_id
        self.name = name
        """In the tree: messages of this publisher are the client's own."""
        self.subscriptions = Subscriptions()
        self.outgoing = Outgoing()
        self.received: dict[int, Inbound] = {}
        """Publications of the client with QoS 2 that it has not released (PUBREL), by packet identifier."""
        self.publications: dict[int, Inbound] = {}
        """By token: publications that the tree has not answered."""
        self.asked: dict[int, Asked] = {}
        """By token."""
        self.connection = 0
        """The number of connections that the session has had."""
        self.token = 0

    def next_token(self) -> int:
        self.token += 1
        return self.token
