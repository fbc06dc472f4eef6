"""A scenario with real processes over TCP: the same brokers, clients and applications as in the virtual world."""
