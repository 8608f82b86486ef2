"""Alembic environment: raw SQL files under one advisory lock, so that two starting processes migrate once."""

from alembic import context
from sqlalchemy import create_engine, pool, text

# Any constant works; it only has to be the same in every process.
MIGRATION_LOCK = 7_461_203_911


def run_migrations() -> None:
    engine = create_engine(context.config.attributes["sqlalchemy_url"], poolclass=pool.NullPool)
    with engine.connect() as connection:
        connection.execute(text("select pg_advisory_lock(:lock)"), {"lock": MIGRATION_LOCK})
        connection.execute(text("set lock_timeout = '5s'"))
        connection.commit()
        context.configure(connection=connection, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()


run_migrations()
