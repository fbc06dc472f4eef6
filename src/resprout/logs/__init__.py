"""Replicated logs of messages (docs/logs.md): the state of a log, its replicas, and its feeder."""
