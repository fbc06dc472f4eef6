"""The comparison of all stacks, and the closed forms of the documents that the systems come from.

Sweeps name them (`table` and `computed` of `[report]`); `resprout report` finds them by entry points of the groups
`resprout.tables` and `resprout.figures`.
"""
