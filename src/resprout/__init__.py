"""Resprout: a publish/subscribe broker tree that grows back."""

__version__ = "0.1.0"
