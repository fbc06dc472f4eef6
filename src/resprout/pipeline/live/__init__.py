"""The live judge on Spark: a stream of rows in, a stream of violations out, and a checkpoint to go on from."""
