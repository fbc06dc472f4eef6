"""What the broker of any stack is made with: the buffers of a step, sessions, the outbox, and dispatch by tables."""
