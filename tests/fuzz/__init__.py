"""A fuzzer that speaks as a logged-in client and as a joined broker: `python -m tests.fuzz --messages N --seed S`."""
