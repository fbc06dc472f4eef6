"""What to run: the TOML model, topologies, workloads (bank, random, chatter) and faults. No driver is known here."""
