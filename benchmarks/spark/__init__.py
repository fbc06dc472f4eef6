"""What the judge on Spark is measured with: generated archives, a database that judges the same, and memory."""
