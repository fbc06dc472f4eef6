"""The experiments of the tree system that the default stack descends from, for both stacks, in virtual time."""
