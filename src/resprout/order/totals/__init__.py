"""Total order: the root gives places, everybody closes, then delivers."""
