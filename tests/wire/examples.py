"""Frames to test with: the codec of the default stack, and valid values for any of its types."""

import enum
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec import inspect

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.messages import Publish
from resprout.links.frames import FRAMES as FRAMES
from resprout.links.frames import Data, Express, Goodbye, Hello, Part, Parted, SessionWelcome
from resprout.stacks.resprout import RESPROUT
from resprout.wire.codec import Codec
from resprout.wire.rules import NAMES

INT64_MAX = 2**63 - 1

CODEC = Codec(FRAMES, RESPROUT.messages)

HELLO = Hello(
    version=1, name="c0", role="client", incarnation=2, peer="b1", peer_incarnation=None, epoch=5, received=0,
    grant=1 << 20,
)  # fmt: skip
WELCOME = SessionWelcome(version=1, name="b1", role="broker", incarnation=1, epoch=5, received=0, grant=1 << 20)

steady = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
"""The same examples in every run."""


def bundle(
    publisher: str = "c0",
    first: int = 1,
    payloads: Sequence[bytes] = (b"hello",),
    stamp: int = 7,
    topic: str = "bank/pt",
    keys: tuple[str, ...] = (),
    guarantee: Guarantee = Guarantee.CAUSAL,
    incarnation: int = 1,
    rows: Sequence[dict[str, Any]] = (),
) -> Bundle:
    return Bundle(
        publisher, incarnation, first, len(payloads), stamp, topic, keys, guarantee, pack_attributes(rows),
        pack_payloads(payloads),
    )  # fmt: skip


def data(*messages: Any) -> Data[Any]:
    return Data(1, 0, 1 << 20, messages)


def publishing(*bundles: Bundle) -> Data[Any]:
    return data(*map(Publish, bundles))


numbers = st.one_of(st.integers(0, 300), st.integers(0, NUMBER_MAX), st.just(NUMBER_MAX))
plain_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
levels = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="+#/\0"), max_size=8)
topics = st.lists(levels, min_size=1, max_size=5).map("/".join).filter(bool)
plain_keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="#\0"), min_size=1, max_size=12)
keys = st.one_of(plain_keys, st.builds("{}#{}".format, topics, plain_keys))
key_sets = st.lists(keys, max_size=5, unique=True).map(lambda found: tuple(sorted(found)))
attributes = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8),
    st.one_of(texts, st.integers(-(2**63), INT64_MAX), st.floats(allow_nan=False), st.booleans()),
    max_size=4,
)
TEXTS = {**dict.fromkeys(NAMES, plain_names), "topic": topics, "topics": topics, "key": keys, "keys": keys}


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    payloads = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=5))
    rows = draw(st.lists(attributes, min_size=len(payloads), max_size=len(payloads)))
    return Bundle(
        draw(st.one_of(st.sampled_from(["c0", "c1"]), plain_names)),
        max(1, draw(numbers)),
        draw(st.one_of(st.integers(1, 300), st.integers(1, NUMBER_MAX - 4))),
        len(payloads),
        draw(numbers),
        draw(topics),
        draw(key_sets),
        draw(st.sampled_from(Guarantee)),
        pack_attributes(rows),
        pack_payloads(payloads),
    )


any_bundle = bundles()


def values(info: inspect.Type, field: str) -> st.SearchStrategy[Any]:
    """Every value of a field that the wire takes."""
    match info:
        case inspect.IntType():
            most = INT64_MAX if info.le is None else info.le
            return numbers if info.ge is None else st.integers(info.ge, most)
        case inspect.StrType():
            return TEXTS.get(field, texts.filter(lambda text: len(text.encode()) <= 64))
        case inspect.BoolType():
            return st.booleans()
        case inspect.BytesType():
            return st.binary(max_size=40)
        case inspect.NoneType():
            return st.none()
        case inspect.EnumType():
            members: list[enum.Enum] = list(info.cls)
            return st.sampled_from(members)
        case inspect.CustomType():
            return any_bundle
        case inspect.VarTupleType():
            return st.lists(values(info.item_type, field), max_size=4).map(tuple)
        case inspect.UnionType():
            return st.one_of([values(item, field) for item in info.types])
        case inspect.StructType():
            return structs(info.cls)
    raise NotImplementedError(info)


@cache  # made anew for every example it would take most of the time of a test
def structs(kind: Any) -> st.SearchStrategy[msgspec.Struct]:
    """Every valid frame or message of a type."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return st.builds(info.cls, **{field.name: values(field.type, field.name) for field in info.fields})


messages: st.SearchStrategy[Any] = st.one_of([structs(kind) for kind in RESPROUT.messages])
data_frames = st.builds(Data, numbers, numbers, numbers, st.lists(messages, max_size=6).map(tuple))
express_frames = st.builds(Express, numbers, numbers, st.lists(messages, max_size=6).map(tuple))
plain_frames = [structs(kind) for kind in (Hello, SessionWelcome, Part, Parted, Goodbye)]
frames: st.SearchStrategy[Any] = st.one_of(*plain_frames, data_frames, express_frames)
