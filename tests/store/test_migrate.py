"""The schema migrates, and a second time changes nothing."""

from store.database import Pool
from store.migrate import migrate, newest_revision


async def test_migrating_again_changes_nothing(pool: Pool, database_url: str) -> None:
    assert migrate(database_url) == newest_revision()
    assert await pool.fetchval("select version_num from alembic_version") == newest_revision()
