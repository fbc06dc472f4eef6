"""The client for code that blocks: `resprout.sync.connect`. See `resprout.client.sync`."""

from resprout.client.sync import BlockingClient as Client
from resprout.client.sync import connect
from resprout.client.sync_inbox import BlockingInbox as Inbox
from resprout.client.sync_receipt import BlockingReceipt as Receipt
from resprout.client.sync_service import BlockingRequest as Request
from resprout.client.sync_service import BlockingService as Service

__all__ = ["Client", "Inbox", "Receipt", "Request", "Service", "connect"]
