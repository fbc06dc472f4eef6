"""Bytes <-> frames."""
