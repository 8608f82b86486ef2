"""The options of `giveway desktop` that belong to one driver each, checked and turned into it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from desktop.drivers import (
    DriverKind,
    OpenDrivers,
    ReplayOptions,
    api_drivers,
    browser_drivers,
    replay_drivers,
)
from desktop.openai.endpoints import Endpoints, Style, load_endpoints, single_endpoint

OF_ENDPOINT: Final = ("base_url", "model", "style", "key_env", "key_file", "stream")
OPTIONS: Final[Mapping[DriverKind, tuple[str, ...]]] = {
    DriverKind.REPLAY: ("answers", "speed"),
    DriverKind.API: ("endpoints", *OF_ENDPOINT),
    DriverKind.BROWSER: ("sites", "headed", "chromium"),
}


@dataclass(frozen=True, slots=True)
class DriverChoice:
    """What was given; None: it was not."""

    driver: DriverKind
    state: Path
    answers: Path | None = None
    speed: float | None = None
    endpoints: Path | None = None
    base_url: str | None = None
    model: str | None = None
    style: Style | None = None
    key_env: str | None = None
    key_file: Path | None = None
    stream: bool | None = None
    sites: Path | None = None
    headed: bool | None = None
    chromium: Path | None = None

    def given(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Those of these options that were given, with their values."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def open_drivers_of(choice: DriverChoice) -> OpenDrivers:
    """What the desktops' questions are answered with. Raises typer.BadParameter for options that do not fit."""
    _check_fit(choice)
    makers: dict[DriverKind, Callable[[DriverChoice], OpenDrivers]] = {
        DriverKind.REPLAY: lambda chosen: replay_drivers(ReplayOptions(**chosen.given(OPTIONS[DriverKind.REPLAY]))),
        DriverKind.API: lambda chosen: api_drivers(_endpoints(chosen)),
        DriverKind.BROWSER: _browser,
    }
    return makers[choice.driver](choice)


def _check_fit(choice: DriverChoice) -> None:
    for driver, names in OPTIONS.items():
        strange = choice.given(names) if driver is not choice.driver else {}
        if strange:
            raise typer.BadParameter(f"{_options(strange)} belongs to --driver {driver}, not to {choice.driver}")


def _endpoints(choice: DriverChoice) -> Endpoints:
    single = choice.given(OF_ENDPOINT)
    if choice.endpoints is not None and single:
        raise typer.BadParameter(f"--endpoints says it all: leave out {_options(single)}, or write it into the file")
    if choice.endpoints is not None:
        return load_endpoints(choice.endpoints)
    if "base_url" not in single or "model" not in single:
        raise typer.BadParameter("the api driver needs --endpoints FILE, or --base-url and --model")
    return single_endpoint(**single)


def _browser(choice: DriverChoice) -> OpenDrivers:
    if choice.sites is None:
        raise typer.BadParameter("the browser driver needs --sites DIR, a folder of site adapters, or one adapter")
    from desktop.browser.options import BrowserOptions
    from desktop.browser.sites import load_sites

    given = choice.given(("headed", "chromium"))
    return browser_drivers(BrowserOptions(sites=dict(load_sites(choice.sites)), state_dir=choice.state, **given))


def _options(given: Mapping[str, Any]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in given)
