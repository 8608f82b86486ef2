"""PostgreSQL, RabbitMQ and Temporal for one machine, under one supervisor."""
