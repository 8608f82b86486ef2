"""Other queues at the same work on the same PostgreSQL. Imported when they run: production needs none of them."""
