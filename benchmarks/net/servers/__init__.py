"""Brokers that come as Python packages, as programs. They run in the environment of the benchmarks."""
