"""Watch a controller run: predicted against measured steps, a test for changes, a verdict."""

from nopg.monitoring._cause import Change
from nopg.monitoring._monitor import Monitor
from nopg.monitoring._page import write_page
from nopg.monitoring._returns import ReturnCheck
from nopg.monitoring._status import Advice, Status

__all__ = ["Advice", "Change", "Monitor", "ReturnCheck", "Status", "write_page"]
