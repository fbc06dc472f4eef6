"""Partitions of logs: their names, and which of them keeps a message.

A log with several partitions is several logs with one declaration and one feed. Partition 3 of the log `bank` is called
`bank~3`; no log can have such a name. A message belongs to the partition of its first key, and one without keys to that
of its topic. So messages with equal first keys, and messages on one topic without keys, are in one partition, in order.
"""

import zlib
from collections.abc import Sequence
from typing import Final

from resprout.core.errors import NameRefusedError
from resprout.core.limits import check_name, shown

PARTITION: Final = "~"
"""Separator of a log and the number of a partition."""
DIGITS_MAX: Final = 2
"""Digits of the number of a partition."""


def partition_of(topic: str, keys: Sequence[str], partitions: int) -> int:
    """Return the partition of a message. `keys` are sorted, as in a bundle; a key of another topic counts by its text
    behind `TOPIC#`."""
    if partitions == 1:
        return 0
    return place_of(topic, keys) % partitions


def place_of(topic: str, keys: Sequence[str]) -> int:
    """Return the number that decides on the partition of a message."""
    if not keys:
        return zlib.crc32(topic.encode())
    head, of_other_topic, rest = keys[0].partition("#")
    return zlib.crc32((rest if of_other_topic else head).encode())


def partition_name(log: str, number: int) -> str:
    return f"{log}{PARTITION}{number}"


def split_name(name: str) -> tuple[str, int | None]:
    """Return the log that a name means, and the number of the partition; None if the name is that of a whole log."""
    log, _, number = name.partition(PARTITION)
    is_partition = number.isascii() and number.isdecimal() and len(number) <= DIGITS_MAX
    return (log, int(number)) if is_partition else (name, None)


def check_log_name(name: str, what: str = "name of a log") -> str:
    """Return the name of a log or of a partition. Raises NameRefusedError if it is neither."""
    log, number = split_name(name) if isinstance(name, str) else (name, None)
    checked = check_name(log, what)
    if number is None:
        return checked
    if name != partition_name(log, number):
        raise NameRefusedError(f"{what} {shown(name)} is refused: partitions are numbered from 0, as in {log}~0")
    return partition_name(checked, number)
