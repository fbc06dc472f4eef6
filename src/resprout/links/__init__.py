"""A FIFO session between two peers over connections that may break: nothing lost, doubled or reordered."""
