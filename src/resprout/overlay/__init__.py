"""Who is where in the tree, who may call a broker dead, and what must be known elsewhere before a repair ends."""
