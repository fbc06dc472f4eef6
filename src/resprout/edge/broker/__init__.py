"""The broker's half of the edge: sessions of clients, for any stack. What a stack does for them stands in `ports`."""
