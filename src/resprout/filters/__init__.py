"""What a subscription matches: topic filters, `where` conditions, and the index that finds subscriptions quickly."""
