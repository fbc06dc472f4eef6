"""How brokers come into the tree, find a place in it, move and go."""
