"""Last values: the store of retained publications that every broker holds, and the rules of key-value buckets."""
