"""Are the lists in the documents complete, and do they name only what exists? `python -m tests.docs`, in `make check`.

Each module looks at one kind of list and yields complaints, one line each: file, then what is wrong. They read files
only, so that the check takes a moment and needs no run of anything.
"""
