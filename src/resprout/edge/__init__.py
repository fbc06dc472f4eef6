"""What clients and their broker say to each other, and both halves of it. The same for every stack."""
