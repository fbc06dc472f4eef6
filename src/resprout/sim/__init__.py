"""Driver one: the virtual world. Runs the same protocol objects as a real network, in virtual time and repeatably."""
