"""HTTP in, signals and transactions out: thin routers, no business rules."""
