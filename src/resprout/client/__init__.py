"""What users import: connect, subscribe, publish, receipts."""
