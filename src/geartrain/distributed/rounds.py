"""One round of a cluster: x goes out once a worker, sums of values and gradients come back.

- `FutureRounds`: one future a worker holds its shards, made by a task that loads them. When a
  worker is lost the scheduler runs that task again elsewhere. The robust default.
- `ActorRounds`: one actor a worker. A third of the latency; lost actors are made again here.

Nothing relies on scattered data, which is lost with its worker. Sums are added up on the client in
the order of the groups, so the result does not depend on who answers first.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any, Protocol

from dask.utils import parse_timedelta
from distributed import Client, wait
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from geartrain.distributed.shards import Group, Reading, Source
from geartrain.oracles.protocols import Vector

# What a lost worker, scheduler or connection looks like from the client.
_LOST = (OSError, TimeoutError, CancelledError, FutureCancelledError, KilledWorker)
# How long an actor may be silent before its worker is looked for, and how often it is made again.
_SILENCE = 1.0
_TRIES = 3

Sums = tuple[float, Vector, str]


class ClusterLost(RuntimeError):
    """The cluster does not answer any more."""


class Rounds(Protocol):
    """A way to ask all groups."""

    notes: list[str]

    def describe(self) -> list[tuple[float, int, str]]:
        """Weight, rows and token of every group; waits until all shards are loaded."""

    def start(self, x: Vector) -> list[Any]:
        """Send x out."""

    def finish(self, pending: list[Any], x: Vector) -> list[Sums]:
        """The sums of every group, in their order."""


def spread(sources: list[Source], workers: list[str]) -> list[tuple[str, list[Source]]]:
    """Shards dealt out to the workers in turn."""
    hands = [(worker, sources[i :: len(workers)]) for i, worker in enumerate(workers)]
    return [(worker, hand) for worker, hand in hands if hand]


def _load(how: Reading, *sources: Source) -> Group:
    return Group(how, sources)


def _sums(group: Group, x: Vector) -> Sums:
    return group.sums(x)


def _describe(group: Group) -> tuple[float, int, str]:
    return group.describe()


class FutureRounds:
    """Rounds over futures that the scheduler makes again when their worker is lost."""

    def __init__(self, client: Client, how: Reading, sources: list[Source], timeout: str) -> None:
        self.client, self.timeout = client, parse_timedelta(timeout)
        self.notes: list[str] = []
        self.groups = [
            client.submit(_load, how, *hand, pure=False, workers=[worker], allow_other_workers=True)
            for worker, hand in spread(sources, _workers(client))
        ]
        self.tokens: list[str] = []

    def describe(self) -> list[tuple[float, int, str]]:
        """Weight, rows and token of every group; waits until all shards are loaded."""
        # Loading may take as long as it likes.
        seen = self.client.gather(self.client.map(_describe, self.groups, pure=False))
        self.tokens = [token for *_, token in seen]
        return seen

    def start(self, x: Vector) -> list[Any]:
        """Send x out."""
        try:
            return self.client.map(_sums, self.groups, [x] * len(self.groups), pure=False)
        except Exception as error:
            if self.client.status == "running":
                raise
            raise ClusterLost(_lost(self.client)) from error

    def finish(self, pending: list[Any], x: Vector) -> list[Sums]:
        """The sums of every group, in their order."""
        try:
            wait(pending, timeout=self.timeout)
            sums = self.client.gather(pending)
        except _LOST as error:
            if self.client.status == "running":
                self.client.cancel(pending)
            raise ClusterLost(_lost(self.client)) from error
        for i, (*_, token) in enumerate(sums):
            if token != self.tokens[i]:
                self.notes.append(f"a worker was lost: group {i} of the shards was loaded again")
                self.tokens[i] = token
        return sums


class ActorRounds:
    """Rounds over actors; an actor that is lost is made again on another worker."""

    def __init__(self, client: Client, how: Reading, sources: list[Source], timeout: str) -> None:
        self.client, self.timeout, self.how = client, parse_timedelta(timeout), how
        self.notes: list[str] = []
        self.hands = spread(sources, _workers(client))
        made = [self._make(i) for i in range(len(self.hands))]
        self.actors = [self._bound(future) for future in made]

    def _make(self, i: int) -> Any:
        worker, hand = self.hands[i]
        return self.client.submit(
            _load,
            self.how,
            *hand,
            actor=True,
            pure=False,
            workers=[worker],
            allow_other_workers=True,
        )

    def _bound(self, future: Any, timeout: float | None = None) -> Any:
        """The actor, on the client that made it: by itself it takes the default one."""
        actor = future.result(timeout=timeout)
        actor._worker, actor._client, actor._future = None, self.client, future
        return actor

    def describe(self) -> list[tuple[float, int, str]]:
        """Weight, rows and token of every group; waits until all shards are loaded."""
        return [actor.describe().result() for actor in self.actors]

    def start(self, x: Vector) -> list[Any]:
        """Send x out."""
        return [self._ask(i, x) for i in range(len(self.actors))]

    def _ask(self, i: int, x: Vector) -> Any:
        """None where the client knows already that the actor is lost."""
        try:
            return self.actors[i].sums(x)
        except RuntimeError:
            return None

    def finish(self, pending: list[Any], x: Vector) -> list[Sums]:
        """The sums of every group, in their order."""
        sums = []
        for i, answer in enumerate(pending):
            for _ in range(_TRIES):
                try:
                    sums.append(self._wait(i, answer))
                    break
                except _LOST as error:
                    answer = self._again(i, x, error)
            else:
                raise ClusterLost(_lost(self.client))
        return sums

    def _wait(self, i: int, answer: Any) -> Sums:
        """The answer; an OSError as soon as its worker is known to be gone."""
        if answer is None:
            raise OSError("the actor's worker was lost")
        waited = 0.0
        while True:
            try:
                return answer.result(timeout=_SILENCE)
            except TimeoutError:
                waited += _SILENCE
                if waited >= self.timeout or not self._alive(i):
                    raise

    def _alive(self, i: int) -> bool:
        """Whether the scheduler knows the worker of an actor."""
        if self.client.status != "running":
            return False
        # client.nthreads(), which would wait forever for a scheduler that is gone.
        scheduler: Any = self.client.scheduler
        known = self.client.sync(scheduler.ncores, callback_timeout=self.timeout)
        return self.actors[i]._address in known

    def _again(self, i: int, x: Vector, error: BaseException) -> Any:
        try:
            self.actors[i] = self._bound(self._make(i), self.timeout)
        except Exception as second:
            raise ClusterLost(_lost(self.client)) from second
        self.notes.append(f"a worker was lost: group {i} of the shards was loaded again")
        return self._ask(i, x)


def _workers(client: Client) -> list[str]:
    workers = list(client.nthreads())
    if not workers:
        raise ClusterLost("the cluster has no workers; add some, or wait with wait_for_workers")
    return workers


def _lost(client: Client) -> str:
    return (
        f"the cluster does not answer (client {client.status}); what was computed is in "
        "error.partial_result, and gt.minimize(h, g, state=error.partial_result.state) goes on "
        "with h and g of a new cluster"
    )
