"""The client for code that blocks: `resprout.sync.connect`. See `resprout.client.sync`."""

from resprout.client.sync import BlockingClient as Client
from resprout.client.sync import BlockingInbox as Inbox
from resprout.client.sync import BlockingReceipt as Receipt
from resprout.client.sync import connect

__all__ = ["Client", "Inbox", "Receipt", "connect"]
