"""Fixtures of the workflow tests."""

from tests.workflows.environment import clock, real_stage, stage, temporal, virtual_time

__all__ = ["clock", "real_stage", "stage", "temporal", "virtual_time"]
