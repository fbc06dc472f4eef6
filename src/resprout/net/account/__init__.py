"""What a broker tells people and monitors of itself, and how others are asked for theirs."""
