"""Transcripts: what brokers and clients say to each other in a few small runs, as text that explains the protocol.

A *scene* is a scenario and comments; the lines between the comments are heard in the simulator. They are kept in
`docs/transcripts/` and compared, so that a change of the protocol shows where it is explained.
"""
