"""Records with positions, in segments, on any kind of files: what survives a process, and can be read again."""
