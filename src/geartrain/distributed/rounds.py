"""Rounds of a Dask cluster: x is sent to every worker, sums of values and gradients come back.

One future per worker holds its shards, so that the scheduler loads them again elsewhere if the
worker is lost. A round does not pass through the scheduler: the client sends x to the workers over
connections that are kept open, which has the lowest latency that Dask offers. A broken connection
means a lost worker; then the client waits until the scheduler has loaded the group again, and
repeats its question. Scattered data is not used, because it is lost with its worker.

The client sends x to at most `FAN_OUT` groups. If there are more, they form a tree with this
fan-out, in which workers ask workers. Sums are added in the order of the tree, which consists of
groups and not of workers: the result does not depend on who answers first or who was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from concurrent.futures import Future as Pending
from time import monotonic
from typing import Any

from dask.utils import parse_timedelta
from distributed import Client

from geartrain.distributed.shards import About, Reading, ShardGroup, Source
from geartrain.distributed.workers import CONNECT, Answer, Answering, Node, add, ask, request
from geartrain.oracles.protocols import Vector

FAN_OUT = 8  # benchmarks/round_model.py
# Seconds between two requests to the scheduler about a lost group, and the number of times that
# groups may be loaded again within one round.
_PAUSE = 0.02
_TRIES = 5
# Seconds after a loss, after which the scheduler is believed that a worker is there.
_GRACE = 0.5


class ClusterLost(RuntimeError):
    """The cluster does not answer any more."""


def workers_of(client: Client) -> list[str]:
    """Addresses of the workers; raises if there are none, where Dask would wait."""
    workers = list(client.nthreads())
    if not workers:
        raise ClusterLost("the cluster has no workers; add some, or wait with wait_for_workers")
    return workers


def _load(how: Reading, *sources: Source) -> ShardGroup:
    return ShardGroup(how, sources)


def _about(group: ShardGroup) -> list[About]:
    return group.about


class Rounds:
    """The groups of shards on a cluster, dealt out to the workers in turn.

    `timeout` says how long to wait if there are no workers left or the scheduler does not answer.
    """

    def __init__(self, client: Client, how: Reading, sources: list[Source], timeout: str) -> None:
        self.client, self.timeout = client, parse_timedelta(timeout)
        self.notes: list[str] = []  # messages about groups that were lost and loaded again
        workers = workers_of(client)[: len(sources)]
        client.register_plugin(Answering())
        n = len(workers)
        self.groups = [
            client.submit(
                _load, how, *sources[i::n], pure=False, workers=[w], allow_other_workers=True
            )
            for i, w in enumerate(workers)
        ]
        for group in self.groups:
            if error := group.exception():  # waits: there is no limit on the time of loading
                raise error
        self.addresses = [""] * n
        client.sync(self._locate, range(n))
        self.direct = client.sync(self._reachable, self.addresses[0])
        places = zip(self.groups, self.addresses, strict=True)
        hands = client.gather(
            [
                client.submit(_about, g, pure=False, workers=[w], allow_other_workers=True)
                for g, w in places
            ]
        )
        self.shards = [hands[j % n][j // n] for j in range(len(sources))]

    # Asking ------------------------------------------------------------------------------

    def start(self, x: Vector) -> Pending[Answer]:
        """Send x to the workers."""
        self._check()
        return asyncio.run_coroutine_threadsafe(self._round(x), self.client.loop.asyncio_loop)

    def finish(self, pending: Pending[Answer]) -> Answer:
        """The sums over all groups."""
        while True:
            try:
                return pending.result(1.0)
            except TimeoutError:
                if not pending.done():
                    self._check()  # a closed client never answers
                    continue
                raise
            except BaseException:
                pending.cancel()  # Ctrl-C
                raise

    def _check(self) -> None:
        if self.client.status not in ("running", "connecting"):
            raise ClusterLost(f"the cluster is gone (client {self.client.status}); {_GO_ON}")

    async def _round(self, x: Vector) -> Answer:
        answers: dict[int, Answer] = {}
        top = range(min(FAN_OUT, len(self.groups)))
        for _ in range(_TRIES):
            missing = [i for i in top if i not in answers]
            asked = await asyncio.gather(*(self._ask(self._node(i), x) for i in missing))
            answers |= {i: a for i, a in zip(missing, asked, strict=True) if not a.lost}
            lost = [number for answer in asked for number in answer.lost]
            if not lost:
                return add([answers[i] for i in top])
            await self._locate(lost)
            self.notes += [
                f"a worker was lost: group {i} of the shards is now at {self.addresses[i]}, and "
                "the round was repeated"
                for i in lost
            ]
        raise ClusterLost(f"groups of shards were lost {_TRIES} times in one round; {_GO_ON}")

    def _node(self, i: int) -> Node:
        """ShardGroup i and the groups that are asked through it."""
        first = FAN_OUT * (i + 1)
        below = range(first, min(first + FAN_OUT, len(self.groups)))
        return Node(i, self.groups[i].key, self.addresses[i], tuple(map(self._node, below)))

    async def _ask(self, node: Node, x: Vector) -> Answer:
        if self.direct:
            return await ask(self.client.rpc, node, x)
        message = self.client.scheduler.proxy(worker=node.address, msg=request(node, x))
        asked = asyncio.ensure_future(message)
        # The scheduler would keep trying to reach a worker that it knows to be gone.
        while not (await asyncio.wait({asked}, timeout=_GRACE))[0]:
            if node.address not in (await self._places([]))[1]:
                asked.cancel()
                return Answer(0.0, None, (node.number,))
        try:
            return Answer(**asked.result())
        except OSError:
            return Answer(0.0, None, (node.number,))

    async def _reachable(self, address: str) -> bool:
        """Whether the client can connect to a worker, which it cannot behind a gateway."""
        with contextlib.suppress(OSError):
            comm = await self.client.rpc.connect(address, timeout=CONNECT)
            self.client.rpc.reuse(address, comm)
            return True
        return False

    # Finding -----------------------------------------------------------------------------

    async def _locate(self, lost: Iterable[int]) -> None:
        """Wait until each of these groups is held by a worker that answers."""
        missing, start, last_sign = set(lost), monotonic(), monotonic()
        while missing:
            self._check()
            holders, workers = await self._places([self.groups[i].key for i in missing])
            # Right after a loss the scheduler may still name the worker that is gone.
            up_to_date = monotonic() - start >= _GRACE
            for i in sorted(missing):
                address = await self._holder(i, holders, workers, up_to_date)
                if address is not None:
                    self.addresses[i] = address
                    missing.discard(i)
            loading = bool(workers) and not any(holders.values())
            if loading:  # which may take any time
                last_sign = monotonic()
            if missing and monotonic() - last_sign > self.timeout:
                what = "does not answer" if workers else "has no workers"
                raise ClusterLost(f"the cluster {what}; {_GO_ON}")
            if missing:
                await asyncio.sleep(_PAUSE)

    async def _holder(
        self, i: int, holders: dict[str, list[str]], workers: list[str], up_to_date: bool
    ) -> str | None:
        """The address of a worker that holds group i and answers; None if there is none yet."""
        group = self.groups[i]
        if group.status in ("error", "cancelled"):
            error = await group._exception()
            raise ClusterLost(f"group {i} cannot be loaded again; {_GO_ON}") from error
        address = next(iter(holders.get(group.key, ())), None)
        if address == self.addresses[i]:
            return address if up_to_date and await self._alive(address, workers) else None
        return address

    async def _places(self, keys: list[str]) -> tuple[dict[str, list[str]], list[str]]:
        """The holders of the keys, and all workers; empty if the scheduler does not answer."""
        scheduler: Any = self.client.scheduler
        try:
            async with asyncio.timeout(self.timeout):
                return await scheduler.who_has(keys=keys), list(await scheduler.ncores())
        except OSError:
            return {}, []

    async def _alive(self, address: str, workers: list[str]) -> bool:
        return await self._reachable(address) if self.direct else address in workers


_GO_ON = (
    "the result so far is in error.partial_result; with h and g on a new cluster, continue by "
    "gt.minimize(h, g, state=error.partial_result.state), or by gt.resume(path, h, g) if the run "
    "had checkpoint=path"
)
