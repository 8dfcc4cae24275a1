"""Keys through the queue and a reconciler that does nothing.

The limit is asyncio's own queue with a time limit around each call: no deduplication, no delays,
no back-off, no metrics, no logging context.
"""

from __future__ import annotations

import asyncio
import time

from bench.rows import Row, report
from fairlead.runtime import Controller, Request


KEYS = 10_000
ROUNDS = 5
WORKERS = 2


async def bare() -> float:
    """Measure the CPU seconds of the limit."""
    queue: asyncio.Queue[Request] = asyncio.Queue()

    async def reconcile(request: Request) -> None:
        return

    async def work() -> None:
        while True:
            request = await queue.get()
            async with asyncio.timeout(120):
                await reconcile(request)
            queue.task_done()

    begun = time.process_time()
    workers = [asyncio.create_task(work()) for _ in range(WORKERS)]
    for number in range(KEYS):
        queue.put_nowait(Request("bench", "namespace", f"widget-{number}"))
    await queue.join()
    cost = time.process_time() - begun
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)
    return cost


async def controller() -> float:
    """Measure the CPU seconds of a controller, start included."""
    done = asyncio.Event()
    count = 0

    async def reconcile(request: Request) -> None:
        nonlocal count
        count += 1
        if count == KEYS:
            done.set()

    begun = time.process_time()
    ours = Controller("bench", reconcile, workers=WORKERS)
    running = asyncio.create_task(ours.run())
    for number in range(KEYS):
        ours.enqueue(Request("bench", "namespace", f"widget-{number}"))
    await done.wait()
    cost = time.process_time() - begun
    running.cancel()
    await asyncio.wait([running])
    return cost


async def compare() -> list[Row]:
    limit = min([await bare() for _ in range(ROUNDS)])
    ours = min([await controller() for _ in range(ROUNDS)])
    note = f"{ours / KEYS * 1e6:.1f} us CPU per key against {limit / KEYS * 1e6:.1f} us"
    title = f"Controller: {KEYS:,} keys against asyncio.Queue"
    return [
        Row("controller", title, ours / limit, note=note),
        Row("controller_keys_per_second", "Controller: keys", KEYS / ours, "per CPU second"),
    ]


if __name__ == "__main__":
    report(compare)
