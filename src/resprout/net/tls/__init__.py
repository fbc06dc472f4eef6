"""Connections that prove who is at either end, and that nobody else can read."""
