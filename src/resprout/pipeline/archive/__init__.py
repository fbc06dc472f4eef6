"""The archive: a folder that runs come into whole, verified and once."""
