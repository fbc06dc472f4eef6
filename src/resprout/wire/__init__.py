"""Bytes <-> frames: the only floor that knows what travels on a connection. Anything malformed is a `WireError`.

A connection carries, in each direction and independently of the other (`codec`):

    preamble                    8 bytes, once: who speaks, and which versions of this format
    length, body                u32 big-endian and that many bytes, again and again; one frame each

A body is one MessagePack value: the array `[tag, field, field, ...]` of a frame type (`codec`). Frames and the messages
inside them are msgspec Structs with integer tags; wire stands below the floors that define them, so they are handed in.
Bundles have a layout of their own, in which names travel once per connection and then as numbers (`bundles`).

What a peer may claim is bounded by `core.limits`, by the rules for numbers and texts in `rules`, and, at the broker
that a client talks to, by `bundles.check_columns`. `sizes` tells how many bytes something takes without encoding it.

This floor does not retry, resume, compress, encrypt or authenticate; it keeps no frame and asks no clock.
"""
