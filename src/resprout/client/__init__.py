"""The asynchronous client and the blocking one: connect, subscribe, publish, receipts."""
