"""Every argument of every public call refuses wrong values with a UsageError that names it, in both clients.

The table has good arguments for each call, and wrong values for each argument. A call or an argument that is not in the
table fails the test, so a new one cannot be forgotten.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

import resprout
from resprout import sync
from resprout.testing import Broker
from tests.patience import PATIENCE_S

NAIVE = datetime.fromisoformat("2026-01-01")
NAN = float("nan")
TIMES = [-1, NAN, "5", True, [1]]
FLAGS = [None, 1, "yes"]
TOPICS = [None, "", 5, b"t", ["t"], "a/+", "#", "a\0", "x" * 600]
FILTERS = [None, "", 5, b"t", ["t"], "a/#/b", "a+"]
CONDITIONS = [5, ["x > 1"], "x >", ""]
PAYLOADS = [None, "text", 3, (1, 2), object(), {"a": object()}, bytes(2 << 20)]
GUARANTEES = [None, "best", 5, ["causal"]]
KEYS = [None, "abc", 5, [None], [["a"]], [""], ["k" * 300]]
NAMES = ["", 5, "with a blank", ["a"], "n" * 65]
REPLICAS = [None, "b0", 5, [], [5], ["b0", "b0"], ["with a blank"], ["b"] * 10]
TYPES = ["Order", 5, [int], object]

PUBLISH: dict[str, list[Any]] = {"guarantee": GUARANTEES, "keys": KEYS}
CONNECT: dict[str, list[Any]] = {
    "address": [None, [], 5, [None], "", "a:b", "host:99999"],
    "name": NAMES,
    "timeout": TIMES,
    "on_event": [5, "print"],
    "options": [5, {"bundle_max": 3}],
    "links": [5, {}],
    "tls": [5, ["folder"], "/no/such/folder"],
    "login": [5, "no-colon"],
    "epoch": [0, -1, "7", True, 1.5, 1 << 60],
}
CLIENT: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "publish": (
        {"topic": "t", "payload": b""},
        {
            "topic": TOPICS, "payload": PAYLOADS, "attributes": [5, "x", ["a"], {"a": None}, {1: 2}, {"a": NAN}],
            "retain": FLAGS, "ttl": [0, -1, "5", True, NAN], "delay": [-1, "5", True, NAN, 1e12],
            "priority": [-1, 10, "5", True, 1.5], "deliver_at": [-1, "5", True, NAN, NAIVE, 1e13],
            "message_id": ["", 5, b"x", "x" * 257], **PUBLISH,
        },
    ),
    "publish_bundle": (
        {"topic": "t", "payloads": [b""]},
        {
            "topic": TOPICS, "payloads": [None, [], b"bytes", "text", 5, [None], [b""] * 1025, [bytes(2 << 20)]],
            "attributes": [5, {"a": 1}, [], [5], [{"a": None}]], **PUBLISH,
        },
    ),
    "request": (
        {"topic": "t", "payload": b""},
        {
            "topic": TOPICS, "payload": PAYLOADS, "timeout": TIMES, "type": TYPES,
            "attributes": [5, "x", ["a"], {"a": None}, {"reply_to": "x"}], **PUBLISH,
        },
    ),
    "serve": ({"topic": "t"}, {"topic": FILTERS, "where": CONDITIONS, "type": TYPES, "group": NAMES[1:]}),
    "subscribe": (
        {"filter": "t", "durable": "d"},
        {
            "filter": FILTERS, "where": CONDITIONS, "into": [5, "t", object()], "durable": NAMES,
            "group": [*NAMES, "another"], "when_full": [5, "away", "disconnect", ["block"]],
            "max_pending": [0, -1, True, "5", 1.5, 5], "window": [0, -1, True, "5", 1.5], "manual_ack": FLAGS,
            "redelivery": [5, "x", {"max_deliver": 3}],
            "replay_from": [5, "beginning", "yesterday", "@4", NAIVE, ["earliest"]],
            "allow_gaps": FLAGS, "log": NAMES, "type": TYPES, "retained": FLAGS,
        },
    ),
    "kv": ({}, {"bucket": NAMES}),
    "unsubscribe": ({}, {"inbox": [None, "t", 5]}),
    "end_subscription": ({}, {"name": [None, *NAMES]}),
    "subscriptions": ({}, {}),
    "peek": ({"name": "n"}, {"name": [None, *NAMES], "count": [0, -1, None, "5", True, 1_001]}),
    "purge": ({"name": "n"}, {"name": [None, *NAMES]}),
    "replay_dead_letters": ({"name": "n"}, {"name": [None, *NAMES]}),
    "read": (
        {"filter": "t"},
        {
            "filter": FILTERS, "where": CONDITIONS, "size": [0, -1, None, "5", True], "allow_gaps": FLAGS,
            "start": [None, 5, "beginning", "@4", NAIVE], "log": NAMES,
        },
    ),
    "read_events": ({}, {"request": [None, 5, "t"]}),
    "commit": (
        {"log": "l", "name": "n", "offset": 5},
        {"log": NAMES, "name": NAMES, "offset": [None, -1, True, "5", 1.5, "log.other@5"], "force": FLAGS},
    ),
    "committed": ({"log": "l", "name": "n"}, {"log": NAMES, "name": NAMES}),
    "forget_position": ({"log": "l", "name": "n"}, {"log": NAMES, "name": NAMES}),
    "create_log": (
        {"name": "l", "filter": "a", "replicas": ["b0"]},
        {
            "name": NAMES, "filter": FILTERS, "replicas": REPLICAS, "retain_bytes": [None, -1, True, "5"],
            "retain_us": [None, -1, True, "5"], "flush": [None, 5, "often"], "timeout": [None, *TIMES],
            "partitions": [None, 0, 65, True, "5"], "compact": [None, 1, "yes"],
            "compact_grace_us": [None, -1, True, "5"], "compact_bytes": [None, -1, True, "5"],
        },
    ),
    "move_log": ({"name": "l", "replicas": ["b0"]}, {"name": NAMES, "replicas": REPLICAS}),
    "delete_log": ({"name": "l"}, {"name": NAMES}),
    "forget": ({}, {"names": [None, *NAMES], "force": FLAGS}),
    "close": ({}, {"timeout": TIMES}),
}  # fmt: skip
PLAIN = resprout.Message("p", 1, 1, "t", (), resprout.Guarantee.FIFO, {}, b"", 0)
MESSAGES = [None, 5, "x", PLAIN]
PLAIN_SUBSCRIPTION: dict[str, list[Any]] = {
    "max_pending": [5], "window": [5], "manual_ack": [True], "when_full": ["spill", "away"], "allow_gaps": [True],
    "redelivery": [resprout.Redelivery()],
}  # fmt: skip
"""What a subscription without a name cannot have."""
OTHERS: dict[str, dict[str, tuple[dict[str, Any], dict[str, list[Any]]]]] = {
    "inbox": {"next": ({}, {"timeout": TIMES}), "batches": ({}, {}), "unsubscribe": ({}, {}), "close": ({}, {})},
    "durable": {
        "ack": ({}, {"messages": MESSAGES}), "in_progress": ({}, {"messages": MESSAGES}),
        "nack": ({}, {"messages": MESSAGES, "delay": [-1, None, "5", True, NAN, 1e12]}),
        "term": ({}, {"messages": MESSAGES, "reason": [None, 5, b"x", "x" * 513]}),
        "publish_and_ack": (
            {"message": PLAIN, "topic": "t", "payload": b""},
            {
                "message": MESSAGES, "topic": TOPICS, "payload": PAYLOADS, "keys": PUBLISH["keys"],
                "attributes": [5, "x", ["a"], {"a": None}, {1: 2}, {"a": NAN}],
            },
        ),
    },
    "receipt": {"accepted": ({}, {}), "safe": ({}, {}), "delivered": ({}, {})},
    "service": {"next": ({}, {"timeout": TIMES}), "close": ({}, {})},
    "asked": {"reply": ({}, {"payload": PAYLOADS}), "fail": ({}, {"reason": [None, 5, b"x"]})},
}  # fmt: skip
WORDS = {"keys": "key", "attributes": "attribute", "payloads": "payload", "names": "name", "filter": "filter"}
"""How a text names an argument where it speaks of one of several."""


def _cases(table: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for call, (good, wrong) in table.items():
        for argument, values in wrong.items():
            for value in values:
                yield call, argument, {**good, argument: value}


def _names_it(argument: str, error: Exception) -> bool:
    return WORDS.get(argument, argument) in str(error) or "bundle" in str(error)


def _call(method: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    several = [one.name for one in inspect.signature(method).parameters.values() if one.kind is one.VAR_POSITIONAL]
    if several and several[0] in arguments:
        rest = dict(arguments)
        return method(rest.pop(several[0]), **rest)
    if several and "force" in arguments:
        return method("b9", **arguments)
    return method(**arguments)


async def _wrong(method: Callable[..., Any], argument: str, arguments: dict[str, Any]) -> str:
    """What is wrong with the answer of this call; empty when it is as it should be."""
    said = f"{method.__qualname__}({argument}={arguments[argument]!r:.60})"
    try:
        result = _call(method, arguments)
        if inspect.isawaitable(result):
            async with asyncio.timeout(PATIENCE_S):
                await result
    except resprout.UsageError as error:
        return "" if _names_it(argument, error) else f"{said} does not name it: {error}"
    except Exception as error:
        return f"{said} raised {type(error).__name__}: {error}"
    return f"{said} was accepted"


async def _parts(client: Any) -> dict[str, Any]:
    """One of each object that has calls of its own."""

    async def value(result: Any) -> Any:
        return await result if inspect.isawaitable(result) else result

    service = client.serve("ask")
    service = await service.ready() if hasattr(service, "ready") else service
    inbox = await value(client.subscribe("in"))
    durable = await value(client.subscribe("d", durable="acked", redelivery=resprout.Redelivery()))
    receipt = await value(client.publish("ask", b"", attributes={"reply_to": "$reply/x", "request_id": "1"}))
    asked = await value(service.next())
    return {"inbox": inbox, "durable": durable, "receipt": receipt, "service": service, "asked": asked}


async def _complaints(client: Any, has_timeouts: bool) -> list[str]:
    found = [await _wrong(getattr(client, call), argument, given) for call, argument, given in _cases(CLIENT)]
    plain = {"subscribe": ({"filter": "plain"}, PLAIN_SUBSCRIPTION)}
    found += [await _wrong(getattr(client, call), argument, given) for call, argument, given in _cases(plain)]
    parts = await _parts(client)
    for name, table in OTHERS.items():
        found += [await _wrong(getattr(parts[name], call), argument, given) for call, argument, given in _cases(table)]
    if has_timeouts:
        goods = {call: good for call, (good, _) in CLIENT.items() if call != "kv"}  # which does not wait
        goods |= {
            "unsubscribe": {"inbox": parts["inbox"]},
            "end_subscription": {"name": "n"},
            "forget": {"names": "b9"},
        }
        goods["read_events"] = {"request": None}
        for call, good in goods.items():
            found += [await _wrong(getattr(client, call), "timeout", {**good, "timeout": wrong}) for wrong in TIMES]
        for name, table in OTHERS.items():
            for call, (good, _) in table.items():
                if call not in OTHERS["durable"]:  # which do not wait
                    more = {"payload": b""} if call == "reply" else {"reason": ""} if call == "fail" else good
                    method = getattr(parts[name], call)
                    found += [await _wrong(method, "timeout", {**more, "timeout": one}) for one in TIMES]
    return [complaint for complaint in found if complaint]


def test_the_asynchronous_client_refuses_every_wrong_argument_by_its_name() -> None:
    async def scene() -> list[str]:
        async with resprout.local() as network, network.connect("c") as client:
            return await _complaints(client, has_timeouts=False)

    assert asyncio.run(scene()) == []


def test_the_blocking_client_refuses_every_wrong_argument_by_its_name(resprout_broker: Broker) -> None:
    with sync.connect(resprout_broker.address, name="c") as client:
        assert asyncio.run(_complaints(client, has_timeouts=True)) == []


@pytest.mark.parametrize("connect", [resprout.connect, sync.connect], ids=["asynchronous", "blocking"])
def test_connect_refuses_every_wrong_argument_by_its_name(connect: Callable[..., Any]) -> None:
    assert CONNECT.keys() == inspect.signature(connect).parameters.keys()
    for argument, values in CONNECT.items():
        for value in values:
            good = {"address": "localhost:1", "name": "c"} if argument != "login" else {"address": "localhost:1"}
            complaint = asyncio.run(_wrong(connect, argument, {**good, argument: value}))
            known = "certificates" if argument == "tls" else "NAME:SECRET" if argument == "login" else ""
            assert not complaint or (known and known in complaint), complaint


def test_an_epoch_needs_a_name() -> None:
    with pytest.raises(resprout.UsageError, match="epoch=7 needs a name"):
        resprout.connect("localhost:1", epoch=7)


def test_brokers_inside_the_program_refuse_wrong_arguments() -> None:
    for wrong in ({"brokers": 0}, {"brokers": "3"}, {"brokers": True}, {"stack": 5}, {"stack": "none"}, {"options": 5},
                  {"options": {"x": 1}}, {"host": 5}):  # fmt: skip
        with pytest.raises(resprout.UsageError):
            resprout.local(**wrong)

    async def scene() -> None:
        async with resprout.local() as network:
            for wrong in (
                {"broker": 1},
                {"broker": -1},
                {"broker": "b0"},
                {"name": 5},
                {"timeout": -1},
                {"options": 5},
            ):
                with pytest.raises(resprout.UsageError):
                    network.connect(**wrong)

    asyncio.run(scene())


def test_the_table_has_every_call_and_every_argument() -> None:
    from tests.client.test_sync import _calls

    kinds = {"inbox": resprout.Inbox, "durable": resprout.DurableInbox, "receipt": resprout.Receipt,
             "service": resprout.Service, "asked": resprout.ServedRequest}  # fmt: skip
    tables = [(resprout.Client, CLIENT), *((kinds[name], table) for name, table in OTHERS.items())]
    seen = set(OTHERS["inbox"]) | {"next_nowait"}
    for kind, table in tables:
        calls = set(_calls(kind)) - (seen if kind is resprout.DurableInbox else {"next_nowait"})
        assert calls == set(table), kind
        for call, (_, wrong) in table.items():
            assert set(inspect.signature(getattr(kind, call)).parameters) - {"self"} == set(wrong), f"{kind}.{call}"
