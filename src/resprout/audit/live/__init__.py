"""The judge at work while the run goes on: rows as they come, violations as they show, a memory that stays small."""
