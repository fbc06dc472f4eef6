"""The client for code that blocks: `resprout.sync.connect`. See `resprout.client.sync`."""

from resprout.client.blocking import BlockingDurableInbox as DurableInbox
from resprout.client.blocking import BlockingInbox as Inbox
from resprout.client.blocking import BlockingReceipt as Receipt
from resprout.client.blocking import BlockingRequest as Request
from resprout.client.blocking import BlockingService as Service
from resprout.client.sync import BlockingClient as Client
from resprout.client.sync import connect

__all__ = ["Client", "DurableInbox", "Inbox", "Receipt", "Request", "Service", "connect"]
