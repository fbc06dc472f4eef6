"""What brokers may say about logs. Members that break these rules lie, and are cut off.

- A replica speaks for itself: the identity in a message is one of the broker that says it.
- A feeder feeds in its own name, and what it sends is a command of that feed, with that number.
- The answer of a leader covers no command that does not exist.
- A configuration has no more members than replicas may have.

Who is a replica of which log is not checked here: declarations are rolled out one broker after the other, so brokers
disagree about it for a while. What a broker says that is no replica, as far as the receiver knows, has no effect.
"""

from typing import Any

from resprout.core.errors import BoundError, WireError
from resprout.logs.feeder import LogFeeder
from resprout.logs.messages import LogAsk, LogFed, LogFeed, LogFound, LogTold, broker_of, feeding_broker, speaker_of
from resprout.logs.records import read_command
from resprout.replicas.messages import MEMBERS_MAX


def check_replica_message(broker: str, message: Any) -> None:
    """Of `replicas.messages`."""
    if broker_of(speaker_of(message.group)[1]) != broker:
        raise WireError(f"{broker} speaks for another replica: {message.group!r}")


def check_log_message(broker: str, message: Any) -> None:
    """WireError for what no honest broker says."""
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


def check_fed(broker: str, message: LogFed, feeder: LogFeeder) -> None:
    """BoundError for an answer to what does not exist."""
    if message.feed == feeder.feed and message.upto > feeder.last:
        raise BoundError(f"{broker} has command {message.upto} of {message.feed!r}, which has {feeder.last}")
