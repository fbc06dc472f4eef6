"""Load for a network of brokers, and what it costs: a publisher and subscribers in processes of their own.

The parent (`team`) gives orders, the children (`worker`) carry them out and report. Children know nothing but how to
send and receive: `ours` does it with our client, and benchmarks bring others.
"""
