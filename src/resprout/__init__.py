"""Resprout: a publish/subscribe broker tree that grows back.

    async with resprout.connect("localhost:7450", name="teller-1") as client:
        inbox = await client.subscribe("bank/+", where="amount > 100")
        receipt = await client.publish("bank/pt", b"...", attributes={"amount": 120})
        await receipt.safe()
        async for message in inbox:
            ...

`resprout.local()` gives brokers inside this process, `resprout.sync` the same client for code that blocks.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resprout import spark, sync
    from resprout.client.app import Application
    from resprout.client.client import Client
    from resprout.client.connect import connect
    from resprout.client.durable import DurableInbox
    from resprout.client.errors import (
        ClientError,
        ClosedError,
        CommitError,
        Connected,
        ConnectError,
        ConnectionState,
        DeliveriesMissing,
        DifferentSubscriptionError,
        Disconnected,
        EventsMissing,
        FencedError,
        ForgetError,
        ForkedError,
        GapError,
        KvError,
        LogError,
        MessagesDropped,
        MessagesMissingError,
        MistypedPayloadError,
        NoReplyError,
        NoRespondersError,
        OutcomeUnknownError,
        PublicationDelayed,
        PublishError,
        ReadError,
        Reconnected,
        RequestFailedError,
        RevisionError,
        SlowConsumer,
        SlowConsumerError,
        SubscribeError,
        TimedOutError,
    )
    from resprout.client.inbox import Inbox, TypedInbox, TypedMessage
    from resprout.client.kv import Bucket, KvEntry, Watch
    from resprout.client.local import local
    from resprout.client.past_events import EventsPage, Offset
    from resprout.client.receipts import Receipt
    from resprout.client.redelivery import Redelivery
    from resprout.client.requesting import ServedRequest, Service
    from resprout.core.errors import (
        NameRefusedError,
        PayloadRefusedError,
        ResproutError,
        UnsupportedGuaranteeError,
        UnsupportedReceiptError,
        UnsupportedSubscriptionError,
        UsageError,
    )
    from resprout.core.guarantee import Guarantee
    from resprout.core.message import DurableMessage, Message, MessageId
    from resprout.edge.messages import EventGap
    from resprout.edge.requests import BrokerChanged, PublishingHeld
    from resprout.net.tls import Tls

__version__ = "0.1.0"

__all__ = [
    "Application",
    "BrokerChanged",
    "Bucket",
    "Client",
    "ClientError",
    "ClosedError",
    "CommitError",
    "ConnectError",
    "Connected",
    "ConnectionState",
    "DeliveriesMissing",
    "DifferentSubscriptionError",
    "Disconnected",
    "DurableInbox",
    "DurableMessage",
    "EventGap",
    "EventsMissing",
    "EventsPage",
    "FencedError",
    "ForgetError",
    "ForkedError",
    "GapError",
    "Guarantee",
    "Inbox",
    "KvEntry",
    "KvError",
    "LogError",
    "Message",
    "MessageId",
    "MessagesDropped",
    "MessagesMissingError",
    "MistypedPayloadError",
    "NameRefusedError",
    "NoReplyError",
    "NoRespondersError",
    "Offset",
    "OutcomeUnknownError",
    "PayloadRefusedError",
    "PublicationDelayed",
    "PublishError",
    "PublishingHeld",
    "ReadError",
    "Receipt",
    "Reconnected",
    "Redelivery",
    "RequestFailedError",
    "ResproutError",
    "RevisionError",
    "ServedRequest",
    "Service",
    "SlowConsumer",
    "SlowConsumerError",
    "SubscribeError",
    "TimedOutError",
    "Tls",
    "TypedInbox",
    "TypedMessage",
    "UnsupportedGuaranteeError",
    "UnsupportedReceiptError",
    "UnsupportedSubscriptionError",
    "UsageError",
    "Watch",
    "connect",
    "local",
    "spark",
    "sync",
]

# Where each name lives. They are imported when they are first asked for: `import resprout` stays light, also for the
# command line and for the pytest plugin.
_HOMES = {
    "Application": "resprout.client.app",
    "Bucket": "resprout.client.kv",
    "BrokerChanged": "resprout.edge.requests",
    "Client": "resprout.client.client",
    "ClientError": "resprout.client.errors",
    "ClosedError": "resprout.client.errors",
    "CommitError": "resprout.client.errors",
    "ConnectError": "resprout.client.errors",
    "Connected": "resprout.client.errors",
    "ConnectionState": "resprout.client.errors",
    "DeliveriesMissing": "resprout.client.errors",
    "DifferentSubscriptionError": "resprout.client.errors",
    "Disconnected": "resprout.client.errors",
    "DurableInbox": "resprout.client.durable",
    "DurableMessage": "resprout.core.message",
    "EventGap": "resprout.edge.messages",
    "EventsMissing": "resprout.client.errors",
    "EventsPage": "resprout.client.past_events",
    "FencedError": "resprout.client.errors",
    "ForgetError": "resprout.client.errors",
    "ForkedError": "resprout.client.errors",
    "GapError": "resprout.client.errors",
    "Guarantee": "resprout.core.guarantee",
    "Inbox": "resprout.client.inbox",
    "KvEntry": "resprout.client.kv",
    "KvError": "resprout.client.errors",
    "LogError": "resprout.client.errors",
    "Message": "resprout.core.message",
    "MessageId": "resprout.core.message",
    "MessagesDropped": "resprout.client.errors",
    "MessagesMissingError": "resprout.client.errors",
    "MistypedPayloadError": "resprout.client.errors",
    "NameRefusedError": "resprout.core.errors",
    "NoReplyError": "resprout.client.errors",
    "NoRespondersError": "resprout.client.errors",
    "Offset": "resprout.client.past_events",
    "OutcomeUnknownError": "resprout.client.errors",
    "PayloadRefusedError": "resprout.core.errors",
    "PublicationDelayed": "resprout.client.errors",
    "PublishError": "resprout.client.errors",
    "PublishingHeld": "resprout.edge.requests",
    "ReadError": "resprout.client.errors",
    "Receipt": "resprout.client.receipts",
    "Redelivery": "resprout.client.redelivery",
    "Reconnected": "resprout.client.errors",
    "RequestFailedError": "resprout.client.errors",
    "ResproutError": "resprout.core.errors",
    "RevisionError": "resprout.client.errors",
    "ServedRequest": "resprout.client.requesting",
    "Service": "resprout.client.requesting",
    "SlowConsumer": "resprout.client.errors",
    "SlowConsumerError": "resprout.client.errors",
    "SubscribeError": "resprout.client.errors",
    "TimedOutError": "resprout.client.errors",
    "Tls": "resprout.net.tls",
    "TypedInbox": "resprout.client.inbox",
    "TypedMessage": "resprout.client.inbox",
    "UnsupportedGuaranteeError": "resprout.core.errors",
    "UnsupportedReceiptError": "resprout.core.errors",
    "UnsupportedSubscriptionError": "resprout.core.errors",
    "UsageError": "resprout.core.errors",
    "Watch": "resprout.client.kv",
    "connect": "resprout.client.connect",
    "local": "resprout.client.local",
}


def __getattr__(name: str) -> Any:
    if name in ("spark", "sync"):
        return importlib.import_module(f"resprout.{name}")
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'resprout' has no attribute {name!r}") from None
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
