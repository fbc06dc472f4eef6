"""Checks of messages about logs. A broker that breaks these rules is lying, and is disconnected.

- The identity in a message of a replica is one of the broker that sends it.
- A feeder feeds in its own name, and its message holds the command of that feed with that number.
- The answer of a leader confirms no command that does not exist.
- The members of a configuration are valid identities.
- A configuration has at most as many members as replicas may have.

A leader replaces the time of a command that no clock can have shown: the times of all later entries would be above it
(`in_time`).

These checks do not ask which brokers are replicas of a log: declarations are rolled out one broker after the other, so
brokers may disagree for a while. Messages of a broker that is no replica, as far as the receiver knows, have no effect.
"""

from typing import Any

import msgspec

from resprout.core.errors import BoundError, NameRefusedError, WireError
from resprout.core.limits import check_name
from resprout.logs.feeder import LogFeeder
from resprout.logs.messages import LogAsk, LogFed, LogFeed, LogFound, LogTold, broker_of, feeding_broker, speaker_of
from resprout.logs.records import read_command, to_bytes
from resprout.order.clock import LEAD
from resprout.replicas.messages import MEMBERS_MAX


def check_replica_message(broker: str, message: Any) -> None:
    """Check a message of `replicas.messages`. Raises WireError if it is from another replica's identity, or has members
    that no replica can be: the receiver would pass them on."""
    if broker_of(speaker_of(message.group)[1]) != broker:
        raise WireError(f"{broker} speaks for another replica: {message.group!r}")
    entries = [*getattr(message, "entries", ()), *[each.entry for each in getattr(message, "votes", ())]]
    snapshot = getattr(message, "snapshot", None)
    for holder in (*entries, *((snapshot,) if snapshot is not None else ())):
        for member in holder.lives:
            _check_identity(broker, member)


def _check_identity(broker: str, member: str) -> None:
    try:
        check_name(member)
    except NameRefusedError as error:
        raise WireError(f"{broker} names a member that cannot exist: {error}") from None


def check_log_message(broker: str, message: Any) -> None:
    """Check a message of `logs.messages`. Raises WireError if an honest broker never sends it."""
    if isinstance(message, LogAsk | LogTold) and broker_of(message.identity) != broker:
        raise WireError(f"{broker} speaks for another replica: {message.identity!r}")
    if isinstance(message, LogTold | LogFound) and len(message.members) > MEMBERS_MAX:
        raise WireError(f"{len(message.members)} members of the log {message.log!r}")
    if isinstance(message, LogFeed):
        _check_feed(broker, message)


def _check_feed(broker: str, message: LogFeed) -> None:
    if feeding_broker(message.feed) != broker:
        raise WireError(f"{broker} feeds in another name: {message.feed!r}")
    command = read_command(message.command)
    if command is None or (command.feed, command.number) != (message.feed, message.number):
        raise WireError(f"{broker} feeds what is no command number {message.number} of {message.feed!r}")


def in_time(message: LogFeed, wall_us: int) -> LogFeed:
    """Return the message of a feeder with a command that is not from the future."""
    command = read_command(message.command)
    if command is None or command.time_us <= wall_us + LEAD:
        return message
    return msgspec.structs.replace(message, command=to_bytes(msgspec.structs.replace(command, time_us=wall_us)))


def check_fed(broker: str, message: LogFed, feeder: LogFeeder) -> None:
    """Check the confirmation of a leader. Raises BoundError if it confirms commands that do not exist."""
    if message.feed == feeder.feed and message.upto > feeder.last:
        raise BoundError(f"{broker} has command {message.upto} of {message.feed!r}, which has {feeder.last}")
