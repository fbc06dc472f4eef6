"""The network side by side with others: the same load, the same harness, interleaved in one run.

What others need is in an environment of its own (`make bench` sets it up) or installed on the machine. Whatever is
missing is left out, and a line says so.
"""
