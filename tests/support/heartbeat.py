"""A request again and again beside others, and how long the server itself let it wait.

On a busy machine a wait says more about the other programs than about the server. The kernel
knows how long a thread was ready to run and was not let: that time, of the server's loop and of
this process, is taken off each wait. What is left is the time in which the server was at
something else, or slept.

As a program: ``heartbeat.py URL PID``. Each line on stdin asks for a line on stdout: the longest
wait in seconds and the number of requests since the last one.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self


PATH = "/api/v1/namespaces/default"
PAUSE = 0.005


class Beat(NamedTuple):
    """What was seen since the last look: the longest wait in seconds, and how many requests."""

    longest: float
    requests: int


class Heart:
    """A heartbeat of a server, in a process of its own."""

    def __init__(self, url: str, pid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, url, str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def look(self) -> Beat:
        """What was seen since the last look, one whole request at least."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        longest, count = json.loads(self._process.stdout.readline())
        return Beat(longest, count)


def unscheduled(pid: int) -> float:
    """Seconds that the main thread of a process was ready and not let run."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9


class _Pulse:
    def __init__(self, url: str, pid: int) -> None:
        self._host = url.removeprefix("http://")
        self._pid = pid
        self._lock = threading.Lock()
        self._longest = 0.0
        self._count = 0
        self._own = int(Path("/proc/self").readlink().name)

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._host, timeout=600)
        while True:
            start = time.perf_counter() - self._excused()
            connection.request("GET", PATH)
            connection.getresponse().read()
            waited = time.perf_counter() - self._excused() - start
            with self._lock:
                self._longest = max(self._longest, waited)
                self._count += 1
            time.sleep(PAUSE)

    def _excused(self) -> float:
        return unscheduled(self._pid) + unscheduled(self._own)

    def look(self) -> Beat:
        """Wait for the request that is under way and one more: they saw all until now."""
        with self._lock:
            goal = self._count + 2
        while True:
            with self._lock:
                if self._count >= goal:
                    found = Beat(self._longest, self._count)
                    self._longest, self._count = 0.0, 0
                    return found
            time.sleep(PAUSE)


def main() -> None:
    pulse = _Pulse(sys.argv[1], int(sys.argv[2]))
    threading.Thread(target=pulse.run, daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(pulse.look()), flush=True)  # noqa: T201 - read by the test


if __name__ == "__main__":
    main()
