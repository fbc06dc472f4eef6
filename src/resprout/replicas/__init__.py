"""A replicated log: Multi-Paxos with snapshots and decided membership."""
