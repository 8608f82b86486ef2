"""Fixtures of the recorded histories, and the option that records them anew."""

import pytest

from tests.workflows.environment import clock, stage, virtual_time

__all__ = ["clock", "stage", "virtual_time"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-histories", action="store_true", help="overwrite tests/replay/*.json from real runs")
