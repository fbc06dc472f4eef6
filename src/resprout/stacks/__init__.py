"""Compositions of the floors below: one file per system, readable as its description."""
