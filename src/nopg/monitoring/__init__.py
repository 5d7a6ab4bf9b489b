"""Watch a controller run: predicted against measured steps, a test for changes, a verdict."""

from nopg.monitoring._monitor import Monitor
from nopg.monitoring._page import write_page
from nopg.monitoring._status import Change, Status

__all__ = ["Change", "Monitor", "Status", "write_page"]
