"""The ten daily summary tables: what each is computed from, and how its rows become so (3-results §3.4).

Units first: one row for each question on a platform in a run mode. The others are sums of them, or of the facts of the
runs that they name, so that no two tables can disagree.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

from store.database import Connection
from store.statements import statements

UNITS, RIVALS, CITATIONS = (statements(f"projection_{name}") for name in ("units", "rivals", "citations"))
SQL = statements("projection_tables")

COMPLETENESS: Final = ("expected_count", "collected_count", "failed_count", "missing_count")
VISIBILITY: Final = (
    *COMPLETENESS,
    "mentioned_count",
    "first_count",
    "position_sum",
    "positioned_count",
    "absence_count",
    "brand_mentions",
    "competitor_mentions",
    "citation_count",
    "own_citation_count",
)
RIVALRY: Final = (
    *COMPLETENESS,
    "mentioned_count",
    "mention_count",
    "first_count",
    "position_sum",
    "positioned_count",
    "together_count",
    "ahead_count",
)


@dataclass(frozen=True, slots=True)
class Projection:
    """One table. `key`: its columns after tenant, brand and date; `values`: the others; `fresh`: a query for both."""

    table: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    fresh: str
    nullable: str | None = None

    @property
    def sync(self) -> str:
        """The statement that makes a day's rows ($1 tenant, $2 brand, $3 date) equal to the query's."""
        columns = (*self.key, *self.values)
        return SQL["sync"].format(
            table=self.table,
            fresh=self.fresh,
            columns=", ".join(columns),
            fresh_columns=_of("f", columns),
            old_values=_of("o", self.values),
            fresh_values=_of("f", self.values),
            same=" and ".join(f"{self._term('o', name)} = {self._term('f', name)}" for name in self.key),
            conflict=", ".join(("tenant_id", "brand_id", "business_date", *self.key)),
            changes=", ".join(f"{name} = excluded.{name}" for name in self.values),
        )

    def _term(self, side: str, name: str) -> str:
        """Nulls compare as zero, which is nobody's id: only equality can be hashed."""
        return f"coalesce({side}.{name}, 0)" if name == self.nullable else f"{side}.{name}"


def _of(side: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{side}.{name}" for name in columns)


def _sums(*columns: str) -> str:
    return UNITS["sums"].format(columns=", ".join(columns))


BRAND: Final = Projection(
    "monitoring_brand_daily",
    ("run_mode",),
    (*VISIBILITY, *(f"citation_{name}" for name in COMPLETENESS)),
    UNITS["brands"],
)
BRAND_PLATFORM: Final = Projection(
    "monitoring_brand_platform_daily", ("run_mode", "ai_platform_id"), VISIBILITY, _sums("run_mode", "ai_platform_id")
)
PLATFORM_QUESTION: Final = Projection(
    "monitoring_platform_question_daily",
    ("run_mode", "ai_platform_id", "question_id", "question_version_id"),
    ("topic_id", "run_id", *VISIBILITY),
    UNITS["platform_questions"],
)
QUESTION: Final = Projection(
    "monitoring_question_daily",
    ("run_mode", "question_id", "question_version_id"),
    ("topic_id", *VISIBILITY),
    _sums("run_mode", "question_id", "question_version_id", "topic_id"),
)
TOPIC: Final = Projection(
    "monitoring_topic_daily",
    ("run_mode", "topic_id"),
    VISIBILITY,
    _sums("run_mode", "topic_id"),
    nullable="topic_id",
)
COMPETITOR_PLATFORM: Final = Projection(
    "monitoring_competitor_platform_daily",
    ("run_mode", "ai_platform_id", "competitor_id"),
    ("competitor_name", *RIVALRY),
    RIVALS["competitor_platforms"],
)
COMPETITOR: Final = Projection(
    "monitoring_competitor_daily",
    ("run_mode", "competitor_id"),
    ("competitor_name", *RIVALRY),
    RIVALS["competitors"],
)
CITATION_PAGE: Final = Projection(
    "citation_page_days",
    ("run_mode", "citation_hash", "owner"),
    ("normalized_url", "domain", "site_name", "title", "citation_count"),
    CITATIONS["pages"],
)
CITATION_SOURCE: Final = Projection(
    "citation_source_days",
    ("run_mode", "source", "owner"),
    ("domain", "site_name", "citation_count", "answer_count", "page_count"),
    CITATIONS["sources"],
)
IMPRESSION: Final = Projection(
    "monitoring_brand_impression", ("run_mode",), ("status", *COMPLETENESS, "terms"), UNITS["impressions"]
)

# In the order they are built: each only reads facts and tables before it.
PROJECTIONS: Final = (
    PLATFORM_QUESTION,
    BRAND_PLATFORM,
    BRAND,
    QUESTION,
    TOPIC,
    COMPETITOR_PLATFORM,
    COMPETITOR,
    CITATION_PAGE,
    CITATION_SOURCE,
    IMPRESSION,
)


@cache
def sync_statements() -> tuple[str, ...]:
    """One statement a table, in the order they are built."""
    return tuple(projection.sync for projection in PROJECTIONS)


async def sync_day(connection: Connection, tenant_id: int, brand_id: int, business_date: object) -> int:
    """Bring all ten tables of one brand-day up to date; returns how many rows were written."""
    await connection.execute(SQL["begin_rebuild"], tenant_id, brand_id, business_date)
    return sum([await connection.fetchval(each, tenant_id, brand_id, business_date) for each in sync_statements()])
