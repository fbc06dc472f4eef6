"""The client's half of the edge: it publishes, subscribes, and turns to another broker when its own is gone."""
