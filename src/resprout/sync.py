"""The client for code that blocks: `resprout.sync.connect`. See `resprout.client.sync`."""

from resprout.client.sync import Client, Inbox, Receipt, connect

__all__ = ["Client", "Inbox", "Receipt", "connect"]
