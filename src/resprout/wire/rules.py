"""What every field of a frame or message must keep, derived from its type and name when a codec is made.

    int         0 to 2^63 - 1; a field with bounds of its own (`Annotated[int, Meta(ge=-1)]`) keeps those instead, and
                2^63 - 1 as its greatest number at any rate
    float       not NaN
    str         as its field is called: a `topic` is a topic, a `reason` keeps `limits.REASON_BYTES`; see `TEXTS`. Other
                texts have at most `limits.WHERE_BYTES`
    tuple, list of a frame: at most `limits.FRAME_ITEMS`; of a message: what fits into a frame
    Bundle      the rules of `bundles`
    bytes, bool, None, enumerations, nested structs, dictionaries: nothing more than their types

Types without a rule are refused when the codec is made: `Any` could hide anything, a set has no order.
msgspec itself has checked the types before a rule looks at a value; a rule raises WireError or returns nothing.
"""

from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any, Final

from msgspec import inspect

from resprout.core import limits
from resprout.core.bundle import Bundle
from resprout.core.errors import UsageError, WireError
from resprout.wire.bundles import INT64_MAX, check_text, checked_key, checked_name, checked_topic

Rule = Callable[[Any], object]

NAMES: Final = ("name", "publisher", "parent", "neighbour", "neighbours", "members", "sent_to", "tried")
"""Fields that hold names of brokers or clients. Brokers pass these on, also in fields called `name`: a receiver that
refused one would cut off the broker that passed it on, and not the one that made it up."""

LISTENERS: Final = ("listener", "names", "came", "went", "reader")
"""Fields that hold names, perhaps with a mark before them: `=NAME`, `~revival of NAME`."""

TEXTS: Final[dict[str, Rule]] = {
    **dict.fromkeys(NAMES, checked_name),
    "topic": checked_topic,
    "topics": checked_topic,
    "key": checked_key,
    "keys": checked_key,
    "peer": partial(check_text, what="a peer's name", bytes_max=limits.NAME_BYTES),
    "owner": partial(check_text, what="an owner", bytes_max=limits.NAME_BYTES),
    "broker": partial(check_text, what="a broker's name", bytes_max=limits.NAME_BYTES),  # may be empty: no broker
    "above": partial(check_text, what="a broker's name", bytes_max=limits.NAME_BYTES),
    "subscription": partial(check_text, what="a subscription's name", bytes_max=limits.NAME_BYTES),
    **dict.fromkeys(LISTENERS, partial(check_text, what="a listener", bytes_max=2 * limits.NAME_BYTES)),
    "lives": partial(check_text, what="a life", bytes_max=2 * limits.NAME_BYTES),  # `NAME/INCARNATION`
    "address": partial(check_text, what="an address", bytes_max=limits.ADDRESS_BYTES),
    "role": partial(check_text, what="a role", bytes_max=limits.NAME_BYTES),
    "stack": partial(check_text, what="a stack's name", bytes_max=limits.NAME_BYTES),
    "stream": partial(check_text, what="a stream", bytes_max=limits.NAME_BYTES),
    **dict.fromkeys(("filter", "filters", "also"), partial(check_text, what="a filter", bytes_max=limits.TOPIC_BYTES)),
    "where": partial(check_text, what="a condition", bytes_max=limits.WHERE_BYTES),
    "reason": partial(check_text, what="a reason", bytes_max=limits.REASON_BYTES),
}
_OTHER_TEXT: Final = partial(check_text, what="a text", bytes_max=limits.WHERE_BYTES)

_FREE: Final = (
    inspect.BytesType, inspect.BoolType, inspect.NoneType, inspect.EnumType,
)  # fmt: skip


def rule_of_frame(info: inspect.Type) -> Rule | None:
    """The rule for a whole frame; None when its type already says everything."""
    assert isinstance(info, inspect.StructType)
    return _struct_rule(info, outer=(), items_max=limits.FRAME_ITEMS)


def _rule(info: inspect.Type, field: str, outer: tuple[type, ...]) -> Rule | None:
    """`field` names the value for people and for `TEXTS`; `outer` are the structs around it."""
    match info:
        case inspect.IntType():
            return _int_rule(info, field)
        case inspect.FloatType():
            return partial(_check_float, field=field)
        case inspect.StrType():
            return TEXTS.get(field, _OTHER_TEXT)
        case inspect.VarTupleType() | inspect.ListType():
            return _items_rule(info.item_type, field, outer)
        case inspect.TupleType():
            return _places_rule(info, field, outer)
        case inspect.DictType():
            return _dict_rule(info, field, outer)
        case inspect.UnionType():
            return _union_rule(info, field, outer)
        case inspect.StructType():
            return _struct_rule(info, outer, items_max=None)
        case inspect.CustomType() if info.cls is Bundle:
            return None
        case _ if isinstance(info, _FREE):
            return None
    raise UsageError(f"field {field!r} of {outer[-1].__name__}: {type(info).__name__} has no form on the wire")


def _struct_rule(info: inspect.StructType, outer: tuple[type, ...], items_max: int | None) -> Rule | None:
    if info.cls in outer:
        raise UsageError(f"{info.cls.__name__} contains itself: a peer could nest it without end")
    numbers: list[str] = []
    bounded: list[str] = []
    lengths: list[str] = []
    rules: list[tuple[str, Rule]] = []
    for field in info.fields:
        if isinstance(field.type, inspect.IntType) and _int_bounds(field.type) == (0, INT64_MAX):
            numbers.append(field.name)
            continue
        if isinstance(field.type, inspect.IntType) and field.type.le is None:
            bounded.append(field.name)
            continue
        rule = _rule(field.type, field.name, (*outer, info.cls))
        if items_max is not None and isinstance(field.type, inspect.VarTupleType | inspect.ListType):
            lengths.append(field.name)
        if rule is not None:
            rules.append((field.name, rule))
    if not (numbers or bounded or lengths or rules):
        return None

    # All numbers of a struct in three calls; with a second name, a getter answers with a tuple.
    numbers_of = attrgetter(*numbers, *numbers[:1]) if numbers else None
    bounded_of = attrgetter(*bounded, *bounded[:1]) if bounded else None
    most = items_max or 0

    def check(value: Any) -> None:
        if numbers_of is not None:
            found = numbers_of(value)
            if min(found) < 0 or max(found) > INT64_MAX:
                wrong = next(name for name in numbers if not 0 <= getattr(value, name) <= INT64_MAX)
                raise WireError(f"{wrong} {getattr(value, wrong)} is not in 0 to 2^63 - 1")
        if bounded_of is not None and max(bounded_of(value)) > INT64_MAX:
            raise WireError(f"one of {', '.join(bounded)} is above 2^63 - 1")
        for name in lengths:
            if len(getattr(value, name)) > most:
                raise WireError(f"{len(getattr(value, name))} {name} in one frame; at most {most}")
        for name, rule in rules:
            inner = getattr(value, name)
            if inner is not None:  # of which nothing is demanded
                rule(inner)

    return check


def _int_bounds(info: inspect.IntType) -> tuple[int, int]:
    if info.ge is None and info.gt is None:
        return 0, INT64_MAX
    return -(1 << 63), INT64_MAX  # the field's own lower bound was checked by msgspec


def _int_rule(info: inspect.IntType, field: str) -> Rule | None:
    if info.ge is not None and info.le is not None:
        return None  # both were checked
    least, greatest = _int_bounds(info)

    def check(value: int) -> None:
        if not least <= value <= greatest:
            raise WireError(f"{field} {value} is not in {least} to 2^63 - 1")

    return check


def _check_float(value: float, field: str) -> None:
    if value != value:
        raise WireError(f"{field} is not a number")


def _items_rule(item: inspect.Type, field: str, outer: tuple[type, ...]) -> Rule | None:
    if isinstance(item, inspect.IntType) and _int_bounds(item) == (0, INT64_MAX):
        return partial(_check_numbers, field=field)
    if isinstance(item, inspect.UnionType):
        return _union_items_rule(item, field, outer)
    rule = _rule(item, field, outer)
    return None if rule is None else partial(_check_each, rule=rule)


def _check_numbers(values: Any, field: str) -> None:
    if values and (min(values) < 0 or max(values) > INT64_MAX):
        raise WireError(f"{field} holds a number that is not in 0 to 2^63 - 1")


def _check_each(values: Iterable[Any], rule: Rule) -> None:
    for value in values:
        rule(value)


def _places_rule(info: inspect.TupleType, field: str, outer: tuple[type, ...]) -> Rule | None:
    rules = [(place, rule) for place, item in enumerate(info.item_types) if (rule := _rule(item, field, outer))]

    def check(values: tuple[Any, ...]) -> None:
        for place, rule in rules:
            rule(values[place])

    return check if rules else None


def _dict_rule(info: inspect.DictType, field: str, outer: tuple[type, ...]) -> Rule | None:
    of_key, of_value = _rule(info.key_type, field, outer), _rule(info.value_type, field, outer)

    def check(mapping: dict[Any, Any]) -> None:
        if of_key is not None:
            _check_each(mapping, of_key)
        if of_value is not None:
            _check_each(mapping.values(), of_value)

    return check if of_key or of_value else None


def _union_rules(info: inspect.UnionType, field: str, outer: tuple[type, ...]) -> dict[type, Rule]:
    """By the Python type of the value; members without a rule are absent."""
    return {python_type(item): rule for item in info.types if (rule := _rule(item, field, outer))}


def _union_rule(info: inspect.UnionType, field: str, outer: tuple[type, ...]) -> Rule | None:
    rules = _union_rules(info, field, outer)
    rule_for = rules.get

    def check(value: Any) -> None:
        rule = rule_for(type(value))
        if rule is not None:
            rule(value)

    return check if rules else None


def _union_items_rule(info: inspect.UnionType, field: str, outer: tuple[type, ...]) -> Rule | None:
    rules = _union_rules(info, field, outer)
    rule_for = rules.get

    def check(values: Iterable[Any]) -> None:
        for value in values:
            rule = rule_for(type(value))
            if rule is not None:
                rule(value)

    return check if rules else None


def python_type(info: inspect.Type) -> type:
    """What a decoded value of this type is an instance of, exactly."""
    match info:
        case inspect.StructType() | inspect.CustomType() | inspect.EnumType():
            return info.cls
        case inspect.VarTupleType() | inspect.TupleType():
            return tuple
    return _PLAIN_TYPES[type(info)]


_PLAIN_TYPES: Final[dict[type, type]] = {
    inspect.IntType: int, inspect.FloatType: float, inspect.StrType: str, inspect.BytesType: bytes,
    inspect.BoolType: bool, inspect.NoneType: type(None), inspect.ListType: list, inspect.DictType: dict,
}  # fmt: skip
