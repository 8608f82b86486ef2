"""Every SQL statement, the pool, LISTEN. Statements are named in `store/sql/*.sql`, each with its why."""
