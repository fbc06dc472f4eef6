"""The same audit in DuckDB, as a yardstick for the judge on Spark. Runs in the environment of the benchmarks.

It finds violations of all rules but those of the bank, in SQL over all runs at once. It is given an easier task than
the judge, and says less:

- it tells which rule was broken, by whom and where, and has no explanations;
- it trusts the digests, takes rows to be in order of time, and refuses traces with conditions or frozen clients;
- causal order is no query: SQL finds all who may have violated it, and each suspect is settled in Python (`causal`).
  In the clean archives of the benchmark there are none;
- totals are held against the order that the run claims; a claim that is wrong while all deliveries agree counts as a
  violation here, and totals without a claim are not looked at.
"""
