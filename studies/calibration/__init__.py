"""Predictions against true returns: verdicts, intervals and warnings on plants written for this study."""

from studies.calibration.study import CALIBRATION

__all__ = ["CALIBRATION"]
