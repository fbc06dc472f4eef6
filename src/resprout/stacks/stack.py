"""What a stack is to the rest of the house: a name, what it offers, its options, and how to make its brokers."""

import difflib
import random
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from resprout.core.contract import Machine
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, check_offered

O = TypeVar("O", bound=msgspec.Struct)  # noqa: E741


class BrokerSeat(msgspec.Struct, frozen=True):
    """Where a broker stands when it is made."""

    name: str
    incarnation: int
    parent: str | None
    """Whom to join; None for the root, which founds the network unless it has contacts."""
    contacts: tuple[str, ...] = ()
    """Brokers that may be asked for a place when the parent is not there."""
    address: str = ""
    """Where others reach this broker; empty where names are enough to connect."""


class Stack(msgspec.Struct, Generic[O], frozen=True):
    name: str
    guarantees: tuple[Guarantee, ...]
    options: type[O]
    messages: tuple[type[msgspec.Struct], ...]
    """Every message that its nodes exchange, clients' included: what the codec must know."""
    make_broker: Callable[[BrokerSeat, O, random.Random], Machine]

    def parse_options(self, given: Mapping[str, Any]) -> O:
        """The stack's options with what was given; an unknown name, a wrong type or a bad value is a UsageError."""
        known = {field.name: field for field in msgspec.structs.fields(self.options)}
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
                raise UsageError(f"option {name!r}: the stack {self.name!r} has no such option{hint}")
        try:
            return msgspec.convert(dict(given), self.options, strict=True)
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `$.")
            name = where.rstrip("`")
            raise UsageError(f"option {name!r}: {text[:1].lower()}{text[1:]}") from None

    def check_guarantee(self, guarantee: Guarantee) -> None:
        check_offered(guarantee, self.guarantees, self.name)
