"""Messages between clients and brokers about last values: tags 338 to 341."""

from typing import Annotated, Final

import msgspec

from resprout.core.contract import ClientMessage, ProtocolMessage
from resprout.core.message_fields import BoundedNumber, Derived, Otherwise, TotalSequence
from resprout.values.rows import KnownValue

VALUES_BYTES: Final = 256 << 10
"""Of one answer; a value that is larger comes alone."""
VALUE_ROWS_MAX: Final = 4_096
"""Values in one answer."""
LIMITED_SIZE: Final = Derived("256 KiB (`VALUES_BYTES`)", Otherwise.LIMITED)


class AskValues(ClientMessage, frozen=True, tag=338):
    """Read the last values of topics that match a filter, as the broker has them. Answered by `ValuesTold`."""

    id: BoundedNumber
    """Chosen by the client, unique within its incarnation."""
    filter: str
    after: str = ""
    """Only topics behind this one, in the order of their names."""
    size: Annotated[BoundedNumber, LIMITED_SIZE] = VALUES_BYTES
    """About so many bytes."""
    payloads: bool = True
    """Whether the answer has the payloads and attributes, too."""


class ValuesTold(ProtocolMessage, frozen=True, tag=339):
    """Answer to `AskValues`."""

    id: BoundedNumber
    rows: Annotated[tuple[KnownValue, ...], msgspec.Meta(max_length=VALUE_ROWS_MAX)]
    place: TotalSequence
    """The place of the last retained publication that the answer includes; -1 if there was none."""
    more: bool = False
    """Whether more values match behind these."""
    reason: str = ""
    """Why the request was refused; empty if it was not."""

    @property
    def bulk(self) -> int:
        return sum([row.cost for row in self.rows])


class AskOutcome(ClientMessage, frozen=True, tag=340):
    """Ask what became of a write of this client to a bucket. Answered by `OutcomeTold` when the broker has applied
    it."""

    id: BoundedNumber
    seq: BoundedNumber
    """The number of the write in the client's ordered stream."""


class OutcomeTold(ProtocolMessage, frozen=True, tag=341):
    """Answer to `AskOutcome`."""

    id: BoundedNumber
    place: TotalSequence
    """The place of the write; -1 if the broker does not know any more what became of it."""
    is_applied: bool
    current: TotalSequence
    """The revision of the key behind the write; 0 if the key does not exist."""


VALUE_MESSAGES = (AskValues, ValuesTold, AskOutcome, OutcomeTold)
