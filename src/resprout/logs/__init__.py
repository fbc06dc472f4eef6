"""Replicated logs of messages, described in docs/logs.md: the state of a log, its replicas, and its feeder."""
