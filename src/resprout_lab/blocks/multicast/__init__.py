"""Causal multicast along a tree, for stacks that differ in how they order it: `cbcast` and `causal-barriers`.

Everything but the order is here: every broker is given every publication over every link (`broker`), keeps what a
neighbour may still owe to others , and goes around one that dies (`around`). A stack brings a subclass of
`order.MulticastOrder`, which makes headers and says what must be delivered before what, and one of
`messages.MulticastMessage`, which carries them; `broker.multicast_stack` makes a stack of both.
"""
