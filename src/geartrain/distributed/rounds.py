"""Rounds of a Dask cluster: x goes out once a worker, sums of values and gradients come back.

One future a worker holds its shards, so that the scheduler loads them again elsewhere when the
worker is lost. A round goes past the scheduler, from the client to the workers over connections
that are kept: that has the lowest latency of what Dask offers. A connection that breaks tells of
a lost worker at once; then the client waits for the scheduler to load the group again, and asks it
again. Nothing relies on scattered data, which is lost with its worker.

Up to `FAN_OUT` groups are asked by the client. More of them make a tree of that fan-out, in which
workers ask workers. Sums are added in the order of the tree, which knows groups and not workers:
the result depends neither on who answers first nor on who was lost.
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

from geartrain.distributed.shards import About, Group, Reading, Source
from geartrain.distributed.workers import CONNECT, Answer, Answering, Node, add, ask, request
from geartrain.oracles.protocols import Vector

FAN_OUT = 8  # benchmarks/round_model.py
# Seconds between two questions to the scheduler about a lost group, and how often a group may be
# loaded again within one round.
_PAUSE = 0.02
_TRIES = 5
# Seconds until a worker that is said to be there is tried again.
_GRACE = 0.5


class ClusterLost(RuntimeError):
    """The cluster does not answer any more."""


def workers_of(client: Client) -> list[str]:
    """Addresses; an error if there are none, where Dask would wait."""
    workers = list(client.nthreads())
    if not workers:
        raise ClusterLost("the cluster has no workers; add some, or wait with wait_for_workers")
    return workers


def _load(how: Reading, *sources: Source) -> Group:
    return Group(how, sources)


def _about(group: Group) -> list[About]:
    return group.about


class Rounds:
    """The groups of shards on a cluster.

    Parameters
    ----------
    client : Client
        Of the cluster.
    how : Reading
        How sources become models.
    sources : list
        The shards, dealt out to the workers in turn.
    timeout : str
        How long to wait for workers where none is left, or for a scheduler that is silent.

    Attributes
    ----------
    shards : list of About
        In the order of the sources.
    notes : list of str
        What was lost and loaded again.
    """

    def __init__(self, client: Client, how: Reading, sources: list[Source], timeout: str) -> None:
        self.client, self.timeout = client, parse_timedelta(timeout)
        self.notes: list[str] = []
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
            if error := group.exception():  # waits: loading may take as long as it likes
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
        """Send x out."""
        self._check()
        return asyncio.run_coroutine_threadsafe(self._round(x), self.client.loop.asyncio_loop)

    def finish(self, pending: Pending[Answer]) -> Answer:
        """The sums over all groups."""
        while True:
            try:
                return pending.result(1.0)
            except TimeoutError:
                if not pending.done():
                    self._check()  # a client that is closed never answers
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
        """Group i and all that are asked through it."""
        first = FAN_OUT * (i + 1)
        below = range(first, min(first + FAN_OUT, len(self.groups)))
        return Node(i, self.groups[i].key, self.addresses[i], tuple(map(self._node, below)))

    async def _ask(self, node: Node, x: Vector) -> Answer:
        if self.direct:
            return await ask(self.client.rpc, node, x)
        message = self.client.scheduler.proxy(worker=node.address, msg=request(node, x))
        asked = asyncio.ensure_future(message)
        # The scheduler would try to reach a worker for long that it knows to be gone.
        while not (await asyncio.wait({asked}, timeout=_GRACE))[0]:
            if node.address not in (await self._places([]))[1]:
                asked.cancel()
                return Answer(0.0, None, (node.number,))
        try:
            return Answer(**asked.result())
        except OSError:
            return Answer(0.0, None, (node.number,))

    async def _reachable(self, address: str) -> bool:
        """Whether the client can connect to a worker; behind a gateway it cannot."""
        with contextlib.suppress(OSError):
            comm = await self.client.rpc.connect(address, timeout=CONNECT)
            self.client.rpc.reuse(address, comm)
            return True
        return False

    # Finding -----------------------------------------------------------------------------

    async def _locate(self, lost: Iterable[int]) -> None:
        """Wait until the scheduler has a worker for each of these groups that can be asked."""
        left, start, hope = set(lost), monotonic(), monotonic()
        while True:
            self._check()
            holders, workers = await self._places([self.groups[i].key for i in left])
            for i in sorted(left):
                group = self.groups[i]
                if group.status in ("error", "cancelled"):
                    error = await group._exception()
                    raise ClusterLost(f"group {i} cannot be loaded again; {_GO_ON}") from error
                found = next(iter(holders.get(group.key, ())), "")
                # The scheduler may not know of the loss yet.
                old = found and found == self.addresses[i]
                if old and (monotonic() - start < _GRACE or not await self._alive(found, workers)):
                    continue
                if found:
                    self.addresses[i] = found
                    left.discard(i)
            if not left:
                return
            if workers and not any(holders.values()):
                hope = monotonic()  # a worker is loading, which may take as long as it likes
            if monotonic() - hope > self.timeout:
                what = "does not answer" if workers else "has no workers"
                raise ClusterLost(f"the cluster {what}; {_GO_ON}")
            await asyncio.sleep(_PAUSE)

    async def _places(self, keys: list[str]) -> tuple[dict[str, list[str]], list[str]]:
        """Who holds what, and all workers; nothing where the scheduler is silent."""
        scheduler: Any = self.client.scheduler
        try:
            async with asyncio.timeout(self.timeout):
                return await scheduler.who_has(keys=keys), list(await scheduler.ncores())
        except OSError:
            return {}, []

    async def _alive(self, address: str, workers: list[str]) -> bool:
        return await self._reachable(address) if self.direct else address in workers


_GO_ON = (
    "what was computed is in error.partial_result; with h and g of a new cluster, "
    "gt.minimize(h, g, state=error.partial_result.state) goes on, and gt.resume(path, h, g) if the "
    "run was saved by checkpoint=path"
)
