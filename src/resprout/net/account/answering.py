"""Answers to `AskAccount`: what somebody wants to know of this broker, as JSON."""

import ast
from typing import Any, Final

import msgspec

from resprout.core.errors import UsageError
from resprout.core.names import check_topic
from resprout.net.account.bookkeeper import Bookkeeper
from resprout.net.frames import AskAccount

ACCOUNT: Final = "account"
READERS: Final = "readers"
PASSAGE: Final = "passage"


class PublicationId(msgspec.Struct, frozen=True, array_like=True):
    """As `Message.id` and `Receipt.id` have it."""

    publisher: str
    incarnation: int
    stream: str
    seq: int


def answer(books: Bookkeeper, asked: AskAccount) -> bytes:
    """UsageError when that is no question."""
    match asked.what:
        case "account":
            told: Any = books.account()
        case "readers":
            told = books.readers(check_topic(asked.about))
        case "passage":
            about = _read(asked.about)
            told = books.passage(about.publisher, about.incarnation, about.stream, about.seq)
        case _:
            raise UsageError(f"{asked.what!r} is nothing that a broker tells")
    return msgspec.json.encode(told)


def parse_id(text: str) -> PublicationId:
    """As a program prints `receipt.id` or `message.id`; as a list in JSON; or as NAME.INCARNATION/STREAM:NUMBER."""
    name, slash, rest = text.rpartition("/")
    publisher, dot, life = name.rpartition(".")
    stream, colon, seq = rest.partition(":")
    try:
        if slash and dot and colon and not text.startswith(("(", "[")):
            return PublicationId(publisher, int(life), stream, int(seq))
        return msgspec.convert(ast.literal_eval(text.strip()), PublicationId)
    except (ValueError, SyntaxError, msgspec.ValidationError, MemoryError, RecursionError):
        raise UsageError(
            f"{text!r} is no publication's id: one is ('NAME', INCARNATION, 'STREAM', NUMBER), as `receipt.id` has it"
        ) from None


def _read(text: str) -> PublicationId:
    try:
        return msgspec.json.decode(text, type=PublicationId)
    except msgspec.MsgspecError as error:
        raise UsageError(f"that is no id of a publication: {error}") from None
