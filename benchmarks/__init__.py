"""Speed, measured as ratios against a yardstick in the same run."""
