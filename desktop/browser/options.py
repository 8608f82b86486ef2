"""What the browser driver is told before it starts."""

from dataclasses import dataclass
from pathlib import Path

from desktop.browser.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions:
    """`state_dir`: where each desktop keeps its login and its failures, in `{state_dir}/{client_id}`.

    Seconds: `human_wait` bounds a login or human check where the site's adapter does not; `probe_every` after which a
    login that was not healthy is looked at again; `step` between two pauses of a long phase; `poll` between two looks.
    """

    sites: dict[str, Site]
    state_dir: Path
    headed: bool = False
    chromium: Path | None = None
    human_wait: float = 300.0
    probe_every: float = 300.0
    step: float = 0.5
    poll: float = 0.2
