"""What clients and their broker say to each other, and the client's half of it. The same for every stack."""
