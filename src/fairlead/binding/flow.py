"""Flow control: how a handler says that processing goes on, stops or is to be repeated."""

from __future__ import annotations

import msgspec


class Flow(msgspec.Struct):
    """The state of one pass; the effects of its methods are those of the original's flow control.

    ``transient`` tells that no watched object will announce the end of the trouble, so that the
    pass has to be repeated after a while. ``waiting`` tells that something has not come yet, which
    is how every binding begins whose service is made at the same time.
    """

    retry: bool = False
    stop: bool = False
    error: str = ""
    transient: bool = False
    waiting: bool = False

    def retry_processing(self, error: str = "", *, transient: bool = False) -> None:
        """Stop now and come again, with or without an error."""
        self.retry = self.stop = True
        self.error = error
        self.transient = self.transient or transient

    def wait_for_change(self, lacking: str) -> None:
        """Stop now; the next pass begins when what is lacking comes, for it is watched."""
        self.retry_processing(lacking)
        self.waiting = True

    def fail(self, error: str) -> None:
        """Record an error; it takes :meth:`stop_processing` to stop."""
        self.error = error

    def stop_processing(self) -> None:
        """Run no further handler."""
        self.stop = True
