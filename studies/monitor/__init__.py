"""False alarms and delays of `nopg.Monitor` on simulated plants."""

from studies.monitor.study import MONITOR

__all__ = ["MONITOR"]
