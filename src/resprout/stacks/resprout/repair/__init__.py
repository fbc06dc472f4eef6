"""A repair of the tree, from both ends: its coordinator, its members, and what they hand over."""
