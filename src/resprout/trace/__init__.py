"""What was observed: one table of rows, the same from the simulator, from real processes and in Parquet."""
