"""Other people's clients as workers. They run in the environment of the benchmarks, not in that of the package."""
