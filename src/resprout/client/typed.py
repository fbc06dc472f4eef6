"""Values instead of bytes: what is published may be a structure, and what is read is decoded and checked.

Structures of msgspec, dataclasses and models of pydantic travel as JSON, so that whoever reads them need not be Python.
A message is handed out whatever it holds; its `value` is decoded when it is asked for, and that is where a payload that
does not fit is complained about. So one bad publisher ends nobody's inbox.

pydantic is not needed, nor imported: a model is known by its methods.
"""

import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec
import msgspec.inspect

from resprout.client.errors import MistypedPayloadError
from resprout.client.inbox import Inbox
from resprout.core.errors import UsageError
from resprout.core.message import Message

T = TypeVar("T")
Decode = Callable[[bytes], T]

_UNREAD: Any = object()


class AnyDataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class PydanticModel(Protocol):
    def model_dump_json(self) -> str: ...


Payload = bytes | bytearray | memoryview | msgspec.Struct | AnyDataclass | PydanticModel
"""What may be published."""


def payload_of(value: Payload) -> bytes:
    """The bytes that stand for a value; what is no structure is left as it is, for others to judge."""
    if isinstance(value, msgspec.Struct) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        try:
            return msgspec.json.encode(value)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise UsageError(f"a {type(value).__name__} cannot be published: {error}") from None
    if callable(to_json := getattr(value, "model_dump_json", None)) and not isinstance(value, type):
        text: str = to_json()
        return text.encode()
    return value  # type: ignore[return-value]


def decoder_of(kind: type[T]) -> Decode[T]:
    """Checks while it decodes. UsageError for what cannot be decoded to."""
    if callable(validate := getattr(kind, "model_validate_json", None)):
        return validate  # type: ignore[no-any-return]
    try:
        if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
            raise TypeError("JSON has nothing that could become one")
        return msgspec.json.Decoder(kind).decode
    except TypeError as error:
        raise UsageError(f"messages cannot be of the type {kind!r}: {error}") from None


class TypedMessage(Generic[T]):
    """A message, and what it holds. Everything that a `resprout.Message` has is here as well."""

    __slots__ = ("_decode", "_value", "message")

    def __init__(self, message: Message, decode: Decode[T]) -> None:
        self.message = message
        self._decode = decode
        self._value: T = _UNREAD

    @property
    def value(self) -> T:
        """MistypedPayloadError when the payload does not fit."""
        if self._value is _UNREAD:
            try:
                self._value = self._decode(self.message.payload)
            except ValueError as error:  # what msgspec and pydantic raise are of this kind
                raise MistypedPayloadError(self.message, str(error)) from None
        return self._value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)

    def __repr__(self) -> str:
        return f"<typed {self.message!r}>"


class TypedInbox(Generic[T]):
    """An inbox whose messages have values. Used like the one that it reads from."""

    def __init__(self, inbox: Inbox, kind: type[T]) -> None:
        self.inbox = inbox
        self.kind = kind
        self._decode = decoder_of(kind)

    def __aiter__(self) -> AsyncIterator[TypedMessage[T]]:
        return self._each()

    async def _each(self) -> AsyncIterator[TypedMessage[T]]:
        decode = self._decode
        async for message in self.inbox:
            yield TypedMessage(message, decode)

    async def __anext__(self) -> TypedMessage[T]:
        return TypedMessage(await self.inbox.__anext__(), self._decode)

    async def next(self) -> TypedMessage[T]:
        """The next message; raises ClosedError when there will be none."""
        return TypedMessage(await self.inbox.next(), self._decode)

    def next_now(self) -> TypedMessage[T] | None:
        """The next message if one is here already."""
        message = self.inbox.next_now()
        return None if message is None else TypedMessage(message, self._decode)

    async def batches(self) -> AsyncIterator[Sequence[TypedMessage[T]]]:
        """Everything that came together."""
        decode = self._decode
        async for messages in self.inbox.batches():
            yield [TypedMessage(message, decode) for message in messages]

    def __len__(self) -> int:
        """Messages that are here already."""
        return len(self.inbox)

    def __bool__(self) -> bool:
        """An inbox is something even while it is empty."""
        return True

    @property
    def failure(self) -> str | None:
        """Why the session was lost; None as long as it is not."""
        return self.inbox.failure


def inbox_of_type(typed: Inbox | TypedInbox[Any] | None, kind: type[Any]) -> Inbox | None:
    """What feeds a typed inbox. UsageError when it is not of this type, or when there can be none of it."""
    decoder_of(kind)
    if typed is not None and not (isinstance(typed, TypedInbox) and typed.kind is kind):
        raise UsageError("this inbox has messages of another type")
    return None if typed is None else plain(typed)


def plain(inbox: Inbox | TypedInbox[Any]) -> Inbox:
    return inbox.inbox if isinstance(inbox, TypedInbox) else inbox
