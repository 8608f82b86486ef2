"""RabbitMQ: topology, publishing with confirms, consuming. Transport only; PostgreSQL is the truth (2-desktop §2.1)."""
