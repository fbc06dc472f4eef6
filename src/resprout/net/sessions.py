"""What sessions over TCP need that sessions in a simulation do not."""

import secrets
import time

import msgspec

from resprout.links.options import LinkOptions

HEARTBEAT_US = 500_000
SILENCE_US = 2_000_000
"""TCP alone takes from minutes to for ever to notice that the machine at the other end is gone. A silence costs a
connection and no session, so a peer that is merely slow pays little for a short one."""

FREE_ACK_US = 250_000
"""Receipts and the like are acknowledged with whatever is said next, which is a heartbeat at the latest. A frame for
each acknowledgement would cost a broker with many publishers as much as their receipts do."""


def with_signs_of_life(options: LinkOptions | None = None) -> LinkOptions:
    """The options with heartbeats, suspicion of silence, and patience where nobody waits, wherever they do not say
    anything about it."""
    given = options or LinkOptions()
    heartbeat_us = given.heartbeat_us or min(HEARTBEAT_US, (given.silence_us or SILENCE_US) // 4 or 1)
    silence_us = given.silence_us or max(SILENCE_US, 4 * heartbeat_us)
    patience_us = given.free_ack_delay_us or max(FREE_ACK_US, given.ack_delay_us)
    return msgspec.structs.replace(
        given, heartbeat_us=heartbeat_us, silence_us=silence_us, free_ack_delay_us=patience_us
    )


def random_epoch() -> int:
    """Where to begin numbering sessions: two nodes that took the same name and incarnation do not meet here."""
    return 1 + secrets.randbits(40)


def rising_epoch() -> int:
    """The same for a life that goes on in another process: above what the one before began with, by the clock. A broker
    takes no session of a life that is older than one it has met."""
    return time.time_ns() // 1_000
