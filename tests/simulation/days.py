"""Small simulated days."""

from domain.dispatch_settings import DispatchSettings, Fuses
from simulation.day import Day
from simulation.load import Load, Machine

# Two busy hours: plans due within 5 minutes, clicks meanwhile, desktops that go, attempts that fail and hang.
BUSY = Load(
    clients=60,
    tenants=6,
    hours=2.0,
    seed=7,
    start=9.0,
    batch_minutes=5.0,
    questions=12.0,
    clicks=60.0,
    absences=24.0,
    away_minutes=4.0,
    failures=0.1,
    hangs=0.02,
)
# Too little for them all, so that every minute budget binds.
TIGHT = {"cluster_per_minute": 20, "tenant_per_minute": 6, "fuses": Fuses(cluster_per_minute=30)}
ROOMY = {"cluster_per_minute": 500, "tenant_per_minute": 60, "fuses": Fuses()}


def played(load: Load = BUSY, **settings: object) -> Day:
    """A day, played to its end."""
    day = Day(load, DispatchSettings(**{**TIGHT, **settings}), Machine())  # type: ignore[arg-type]
    day.run()
    return day


def quiet(clients: int = 3, **settings: object) -> Day:
    """One tenant whose desktops stay, where nothing fails and nothing happens by itself."""
    load = Load(
        clients=clients, tenants=1, hours=1.0, clicks=0.0, absences=0.0, failures=0.0, hangs=0.0, logged_out=0.0
    )
    return Day(load, DispatchSettings(**settings), Machine())  # type: ignore[arg-type]
