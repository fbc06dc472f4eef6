"""Driver two: the same machines as in the simulator, over asyncio and TCP."""
