"""The process around controllers: signals, the loop, logs."""

from __future__ import annotations

import asyncio
import io
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from tests.support.process import config_file
from tests.support.waiting import SECONDS

from fairlead.cli.logs import configure_logs
from fairlead.client import ClusterConfig
from fairlead.process import cancel_on, memory_limit, raise_file_limit, run


@pytest.fixture(autouse=True)
def hangups() -> Iterator[None]:
    """Tests, too, may run below nohup, which children inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_sets_stop_and_the_result_comes_back(
    number: signal.Signals,
) -> None:
    async def main(stop: asyncio.Event) -> str:
        os.kill(os.getpid(), number)
        await stop.wait()
        return type(asyncio.get_running_loop()).__module__

    assert run(main).startswith("uvloop")


def ended_by(signals: str, *, first: str = "") -> tuple[int, str]:
    code = f"""
import asyncio, os, signal
from fairlead.process import run

async def main(stop):
    one, two = signals
    os.kill(os.getpid(), one)
    await asyncio.sleep(0.01)
    print("stopping" if stop.is_set() else "still there")
    os.kill(os.getpid(), two)
    await asyncio.sleep(0.01)
    print("stopped")

signals = {signals}
{first}
run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return done.returncode, done.stdout


def test_a_second_signal_ends_the_process() -> None:
    assert ended_by("signal.SIGINT, signal.SIGINT") == (130, "stopping\n")


def test_a_terminal_that_closes_may_hang_up_twice() -> None:
    assert ended_by("signal.SIGHUP, signal.SIGHUP") == (0, "stopping\nstopped\n")


def test_below_nohup_a_hangup_is_nothing() -> None:
    ignore = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    assert ended_by("signal.SIGHUP, signal.SIGHUP", first=ignore) == (0, "still there\nstopped\n")


async def test_work_that_outlasts_stop_is_cancelled() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_soon(stop.set)
    with pytest.raises(asyncio.CancelledError):
        await cancel_on(stop, asyncio.sleep(60))


async def test_work_that_ends_first_returns() -> None:
    assert await cancel_on(asyncio.Event(), asyncio.sleep(0, "done")) == "done"


@pytest.fixture
def unconfigured() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_json_logs_have_the_keys_that_tools_know(unconfigured: None) -> None:
    out = io.StringIO()
    configure_logs(json=True, file=out)
    log = structlog.get_logger(logger_name="fairlead.test")
    log.debug("not seen")
    with structlog.contextvars.bound_contextvars(controller="c"):
        log.info("hello", name="a")
    (line,) = out.getvalue().splitlines()
    entry = json.loads(line)
    assert entry.pop("ts")
    assert entry == {
        "level": "info",
        "logger": "fairlead.test",
        "msg": "hello",
        "controller": "c",
        "name": "a",
    }


def test_a_file_gets_json_and_a_person_lines(unconfigured: None) -> None:
    out = io.StringIO()
    configure_logs(file=out, level="debug")
    structlog.get_logger().debug("one")
    configure_logs(json=False, file=out)
    structlog.get_logger().info("two", key="value")
    first, second = out.getvalue().splitlines()
    assert json.loads(first)["msg"] == "one"
    assert "two" in second
    assert "key=value" in second


LOUD = """
import logging, threading, warnings, asyncio
from fairlead.cli.logs import configure_logs
configure_logs(json=True)
logging.getLogger("psycopg.pool").warning("of %s: %r", "a library", "two\\nlines")
logging.getLogger("odd").log(35, "of a level in between")
logging.getLogger("quiet").info("not worth a line")
logging.getLogger("broken").warning("%d", "no number")
warnings.warn("deprecated", DeprecationWarning)
warnings.warn("careful")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("asyncio").exception("task failed")
class Sick:
    def __del__(self):
        raise ValueError("on its way out")
Sick()
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise KeyError("nobody catches it")
"""


def test_every_line_of_a_json_log_is_json_whoever_speaks() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", LOUD],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(entry["logger"], entry["level"]) for entry in entries] == [
        ("psycopg.pool", "warning"),
        ("odd", "warning"),
        ("broken", "warning"),
        ("py.warnings", "warning"),
        ("py.warnings", "warning"),
        ("asyncio", "error"),
        ("fairlead.cli", "error"),
        ("fairlead.cli", "error"),
        ("fairlead.cli", "critical"),
    ]
    assert entries[0]["msg"] == "of a library: 'two\\nlines'"
    assert "ZeroDivisionError" in entries[5]["exception"]
    assert "on its way out" in entries[6]["exception"]
    assert "nobody catches it" in entries[8]["exception"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(["--log-format=json", "--workers=x"], 2, "'--workers'", id="usage"),
        pytest.param(["--log-format", "json", "--nonsense"], 2, "--nonsense", id="no-such-flag"),
        pytest.param(
            ["--log-format=json", "--synced-interval=1s"], 2, "the minimum is 10s", id="value"
        ),
        pytest.param(
            ["--log-format=json", "--kubeconfig=/dev/null"],
            1,
            "kubeconfig /dev/null",
            id="kubeconfig",
        ),
        pytest.param(["--log-format=json"], 1, "cannot", id="no-server"),
    ],
)
def test_an_error_at_the_start_is_an_object_of_a_json_log(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(ClusterConfig(server="https://127.0.0.1:1", namespace="default")))
    flags = ["--health-probe-bind-address=", "--metrics-bind-address="]
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "postgres", "run", *flags, *arguments],
        env={**os.environ, "KUBECONFIG": str(file)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    *_, last = [json.loads(line) for line in done.stderr.splitlines()]
    assert message in last["msg"]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="'loud' is unknown; use debug, info, warning or error"):
        configure_logs(level="loud")


async def test_what_the_work_raises_is_raised_as_it_is() -> None:
    async def fail() -> None:
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        await cancel_on(asyncio.Event(), fail())


async def test_work_is_awaited_when_the_caller_is_cancelled() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.set()

    caller = asyncio.create_task(cancel_on(asyncio.Event(), work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    assert ended.is_set()


_BUFFERS = """
import asyncio, ctypes, resource
from fairlead.process import run
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
size = 256 << 10
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
async def main(stop):
    before = resident()
    for _ in range(2):
        buffers = [ctypes.c_void_p(libc.malloc(size)) for _ in range(64)]
        last = libc.malloc(100_000)
        for buffer in buffers:
            libc.memset(buffer, 1, size)
            libc.free(buffer)
    unused = [libc.malloc(size) for _ in range(64)]
    print((resident() - before) >> 20)
run(main)
"""


def test_large_buffers_take_memory_only_where_they_are_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BUFFERS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 4


def test_the_soft_limit_becomes_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
        assert raise_file_limit() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("memory.max", "536870912\n", 512 << 20, id="v2"),
        pytest.param("memory.max", "max\n", 0, id="v2-without"),
        pytest.param("memory/memory.limit_in_bytes", "536870912\n", 512 << 20, id="v1"),
        pytest.param("memory/memory.limit_in_bytes", f"{(1 << 63) - 4096}\n", 0, id="v1-without"),
        pytest.param("other", "7", 0, id="no-cgroups"),
    ],
)
def test_the_memory_limit_is_that_of_the_container(
    tmp_path: Path, name: str, text: str, expected: int
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert memory_limit(tmp_path) == expected
