"""The options of links, with the trade-off of each, and the status of a session."""

import msgspec

from resprout.core.errors import UsageError


class LinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and delays of every session of one node. Peers need not agree on them."""

    window_bytes: int = 4 << 20
    """Granted to a peer beyond what it has already sent. A link carries at most window / round trip time."""

    flight_us: int = 50_000
    """What is handed to a connection and not acknowledged is bounded by time: twice what the link carries in this long
    and the shortest round trip. Shorter: signs of life wait less beside large data, and a link that has much to carry
    idles sooner when its ends are busy."""

    ack_delay_us: int = 20_000
    """An acknowledgement waits this long for data to ride on. Longer: fewer frames, more memory at the peer."""
    free_ack_delay_us: int | None = None
    """The same between a client and its broker, where nothing came that counts against the window. None: no longer than
    any other."""
    ack_messages_max: int = 256
    """So many messages are acknowledged at once, without waiting."""

    outbox_messages_max: int = 65_536
    outbox_bytes_max: int = 16 << 20
    """What is kept for a peer that does not acknowledge; beyond either, the session is given up. A stack is never told
    of more room than half of these bytes, so only control messages and a stack that ignores its room can exceed them.
    At least four windows of the peer, or the link is slower than that window allows."""
    broker_messages_max: int = 1 << 20
    """Messages that are kept for a broker, in place of `outbox_messages_max`. A life ends with this session, so this is
    more than one client can cause in a step: 100,000 subscriptions that something wider covered until then. A broker
    that acknowledges nothing is declared dead long before."""
    congested_messages: int = 4_096
    """With so many messages kept for a broker, the stack is told (`Congested`) until a quarter of them is left. More:
    what is said to the broker meanwhile, publications included, waits longer."""

    reconnect_us_min: int = 50_000
    reconnect_us_max: int = 5_000_000
    """Between attempts to connect: doubled each time from the first to the last, then cut by up to half at random, so
    that the peers of a broker that returns do not all come in the same instant. The first attempt after a connection
    broke comes at once, unless that connection did not last."""

    session_linger_us: int = 30_000_000
    """A session that a client opened is kept this long without a connection."""
    broker_linger_us: int | None = None
    """The same for a session between two brokers. None: until a stack closes it, because silence alone does not tell
    whether a broker is dead."""

    heartbeat_us: int | None = None
    """A connection never stays quiet longer than this. None: no heartbeats."""
    silence_us: int | None = None
    """A connection on which nothing came for this long is suspected, closed and opened again. Several heartbeats of the
    peer, or healthy links flap. None: a driver tells when connections break, and nobody guesses."""

    sessions_max: int = 4096
    """Peers beyond this are refused."""
    greetings_max: int = 1024
    """Connections that others opened and that have not said who they are; for each one more, an old one is closed."""
    acquaintances_max: int = 65_536
    """Peers without a session whose last incarnation is remembered."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            least = 0 if name in ("ack_delay_us", "session_linger_us", "broker_linger_us") else 1
            if value is not None and value < least:
                raise UsageError(f"link option {name} must be at least {least}, not {value}")
        if self.reconnect_us_max < self.reconnect_us_min:
            raise UsageError("link option reconnect_us_max is less than reconnect_us_min")
        if self.heartbeat_us is not None and self.silence_us is not None and self.silence_us <= self.heartbeat_us:
            raise UsageError("link option silence_us must be longer than heartbeat_us: idle links would be suspected")


class LinkStatus(msgspec.Struct, frozen=True):
    """One session as people and monitors see it."""

    peer: str
    role: str
    incarnation: int
    epoch: int
    connected: bool
    sent: int
    received: int
    unconfirmed: int
    """Messages that the peer has not acknowledged."""
    unconfirmed_bytes: int
    room: int
    """Bytes that may be sent now; negative when the last message took more than there was."""
    held: bool
