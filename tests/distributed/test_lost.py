"""Workers that are lost, and clusters: the run goes on, or can be taken up again."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import geartrain as gt
from geartrain.distributed import rounds
from geartrain.distributed.shards import Reading, ShardGroup
from geartrain.distributed.workers import Answer, add
from geartrain.oracles.losses import make_loss
from shards import N, loaders, make_rows, whole

pytestmark = [
    pytest.mark.outside,  # clusters
    pytest.mark.same_everywhere,  # a run is compared with itself
]

X = np.cos(np.arange(N))


@pytest.fixture
def four(client):
    """The client, when the worker that the last test killed is there again, or another one.

    A worker that is killed while it starts is given up by its nanny.
    """
    try:
        client.wait_for_workers(4, timeout=60)
    except TimeoutError:
        client.cluster.scale(len(client.cluster.worker_spec) + 1)
        client.wait_for_workers(4, timeout=300)
    return client


def pid_of(client, h, group):
    """The process that holds a group."""
    return client.run(os.getpid)[h._rounds.addresses[group]]


@contextmanager
def threads(n_workers=1):
    """A cluster whose workers are threads of this process, and its client."""
    from distributed import Client, LocalCluster

    options = {"processes": False, "dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=n_workers, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client


def close_worker(cluster, h, group):
    """The worker of a group goes, and does not hand over what it has."""
    address = h._rounds.addresses[group]
    cluster.sync(next(w for w in cluster.workers.values() if w.address == address).close)


def blocks():
    """All rows as Dask arrays."""
    import dask.array as da

    A, y, _ = whole()
    return da.from_array(A, chunks=(40, N)), da.from_array(y, chunks=40)


def run(client, make=loaders, at=None, do=None, method="pqn"):
    """A run whose callback calls `do(h)` at iteration `at`; the result and all iterates."""
    h, g = gt.distributed.similarity(client, make(), l2=0.01)
    points = []

    def callback(intermediate_result):
        points.append(intermediate_result.x)
        if len(points) == at:
            do(h)

    res = gt.minimize(h, g, method=method, tol=1e-9, callback=callback)
    assert res.success
    # A round that had to be repeated is one call all the same.
    assert res.calls["h.grad"] == h.rounds_done
    return res, np.array(points)


def assert_same(disturbed, undisturbed):
    """The same iterates to rounding, the same rounds; one run has a tale to tell."""
    (res, points), (quiet, expected) = disturbed, undisturbed
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-10)
    assert len(points) > 4 and res.calls == quiet.calls
    assert not quiet.history.notes
    assert any("a worker was lost" in note for _, note in res.history.notes)


ONE_COLUMN, THREE_COLUMNS = (gt.methods.SimilarNewton(columns=k) for k in (1, 3))


@pytest.mark.parametrize(("make", "method"), [(blocks, "pqn"), (loaders, ONE_COLUMN)])
def test_a_worker_killed_between_rounds(four, make, method):
    undisturbed = run(four, make, method=method)
    kill = lambda h: os.kill(pid_of(four, h, 1), signal.SIGKILL)  # noqa: E731
    assert_same(run(four, make, 3, kill, method), undisturbed)


def never_end(begun):
    """Make the next sums of this process endless, and tell when they begin."""

    def sums(self, x):
        begun.touch()
        while True:
            time.sleep(0.01)

    ShardGroup.sums = sums


def test_a_worker_killed_inside_a_round(four, tmp_path):
    """It has x and is computing when it dies."""
    killed = []

    def arrange(h):
        pid, begun = pid_of(four, h, 2), tmp_path / "begun"
        four.run(never_end, begun, workers=[h._rounds.addresses[2]])

        def kill():
            while not begun.exists():
                time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)
            killed.append(h.rounds_done)

        threading.Thread(target=kill).start()

    undisturbed = run(four)
    disturbed = run(four, at=3, do=arrange)
    assert_same(disturbed, undisturbed)
    # Inside the round after the third point: it was under way and was not done.
    _, points = disturbed
    assert killed and 3 <= killed[0] < len(points)


def test_sums_are_added_in_their_order():
    """Of floating-point numbers the order matters; what is lost is passed on."""
    numbers = [1e16, 1.0, -1e16, 1.0]
    total = add([Answer(v, np.array([v, -v])) for v in numbers])
    assert total.value == ((1e16 + 1.0) - 1e16) + 1.0 == 1.0
    np.testing.assert_array_equal(total.gradient, [1.0, -1.0])
    lost = add([Answer(1.0, np.ones(1)), Answer(0.0, None, (4,)), Answer(0.0, None, (2, 7))])
    assert lost == Answer(0.0, None, (4, 2, 7))


@pytest.mark.filterwarnings("ignore")  # dying workers have much to say
def test_a_tree_of_workers(monkeypatch):
    """With fan-out 2 the groups 2 and 3 are asked through 0; an end is lost, then the root."""
    monkeypatch.setattr(rounds, "FAN_OUT", 2)
    how = Reading(make_loss("logistic"), False, N, "y", None)
    value, gradient = ShardGroup(how, loaders()[1:]).sums(X)
    with threads(4) as (cluster, client):
        h, _ = gt.distributed.similarity(client, loaders())
        top = [h._rounds._node(i) for i in range(2)]
        assert [[node.number for node in root.below] for root in top] == [[2, 3], []]
        for victim in (None, 2, 0):
            if victim is not None:
                close_worker(cluster, h, victim)
            answer = h._rounds.finish(h._rounds.start(X))
            assert answer.value == pytest.approx(value, rel=1e-13)
            np.testing.assert_allclose(answer.gradient, gradient, rtol=1e-12)
            notes = h.pop_notes()
            told = [f"group {victim} of the shards is now at" in note for note in notes]
            assert any(told) == (victim is not None)


@pytest.mark.parametrize("n_groups", [1, 5, 30, 200])
def test_every_group_is_asked_once(monkeypatch, n_groups):
    """And no one asks more than FAN_OUT others."""
    monkeypatch.setattr(rounds, "FAN_OUT", 5)
    some = rounds.Rounds.__new__(rounds.Rounds)
    some.groups = [SimpleNamespace(key=str(i)) for i in range(n_groups)]
    some.addresses = [""] * n_groups

    def numbers(node):
        assert len(node.below) <= 5
        return [node.number, *(i for child in node.below for i in numbers(child))]

    asked = [i for root in range(min(5, n_groups)) for i in numbers(some._node(root))]
    assert sorted(asked) == list(range(n_groups))


@pytest.mark.filterwarnings("ignore")
def test_through_the_scheduler(monkeypatch):
    """A client that cannot reach the workers asks through the scheduler; the numbers are equal."""
    monkeypatch.setattr(rounds, "CONNECT", 0.1)
    with threads(2) as (cluster, client):
        h, _ = gt.distributed.similarity(client, loaders())
        assert h._rounds.direct
        assert client.sync(h._rounds._reachable, "tcp://127.0.0.1:1") is False
        direct = h._rounds.finish(h._rounds.start(X))
        h._rounds.direct = False
        for lose in (False, True):
            if lose:
                close_worker(cluster, h, 1)
            proxied = h._rounds.finish(h._rounds.start(X))
            assert direct.value == pytest.approx(proxied.value, rel=1e-13)
            np.testing.assert_allclose(direct.gradient, proxied.gradient, rtol=1e-12)
            assert bool(h.pop_notes()) == lose


def test_an_error_in_a_worker_is_raised_here(client):
    """It is no loss, and nothing is asked again."""
    h, _ = gt.distributed.similarity(client, loaders())
    with pytest.raises(ValueError, match="matmul"):
        h._rounds.finish(h._rounds.start(np.ones(N + 1)))
    assert h.pop_notes() == []


# Clusters --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["pqn", THREE_COLUMNS])
def test_a_cluster_that_is_gone(client, tmp_path, method):
    """A clear error, the state saved; `resume` goes on with a new cluster."""
    path, points = tmp_path / "run.gtck", []
    with threads() as (cluster, other):
        h, g = gt.distributed.similarity(other, loaders(), l2=0.01, timeout="2s")

        def stop_cluster(x):
            points.append(x)
            if len(points) == 3:
                cluster.close()

        with pytest.raises(gt.distributed.ClusterLost, match=r"is gone.*gt\.resume") as info:
            gt.minimize(h, g, method=method, tol=1e-9, callback=stop_cluster, checkpoint=path)
    part = info.value.partial_result
    assert part.status == 7 and part.nit == 2
    np.testing.assert_array_equal(part.x, points[-1])

    whole, expected = run(client, method=method)
    h, g = gt.distributed.similarity(client, loaders(), l2=0.01)
    again = gt.minimize(h, g, method=method, state=part.state, tol=1e-9)
    resumed = gt.resume(path, h, g, callback=points.append)
    # Another number of workers: other groups, so other roundings.
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-10)
    for res in (again, resumed):
        np.testing.assert_allclose(res.x, whole.x, rtol=0, atol=1e-10)
        assert res.success and res.calls["h.grad"] == whole.calls["h.grad"]

    other_rows = [*loaders()[:-1], partial(make_rows, 6, csr=True)]
    changed, g = gt.distributed.similarity(client, other_rows, l2=0.01)
    with pytest.raises(gt.core.checkpoint.CheckpointError, match="another problem: h was"):
        gt.resume(path, changed, g)


@pytest.mark.filterwarnings("ignore")
def test_no_worker_left():
    with threads() as (cluster, other):
        h, _ = gt.distributed.similarity(other, loaders(), timeout="0.5s")
        h.value_and_grad(X)
        cluster.scale(0)
        while other.nthreads():
            time.sleep(0.01)

        def ask_until_it_is_gone():
            """A worker that the scheduler has dropped may still answer while it closes."""
            for k in range(1000):
                h.value_and_grad(-X / (k + 1))
                time.sleep(0.01)

        with pytest.raises(gt.distributed.ClusterLost, match="has no workers"):
            ask_until_it_is_gone()
        with pytest.raises(gt.distributed.ClusterLost, match="add some"):
            gt.distributed.similarity(other, loaders())


@pytest.mark.filterwarnings("ignore")
def test_a_shard_that_cannot_be_loaded_again(tmp_path):
    """The reason is told."""
    for j in range(3):
        A, y = make_rows(j)
        np.savez(tmp_path / f"{j}.npz", A=A, y=y)
    files = sorted(tmp_path.iterdir())
    with threads(2) as (cluster, client):
        h, _ = gt.distributed.similarity(client, files)
        files[2].unlink()
        close_worker(cluster, h, 1)
        with pytest.raises(gt.distributed.ClusterLost, match="group 1 cannot be loaded") as info:
            h.value_and_grad(X)
    assert isinstance(info.value.__cause__, FileNotFoundError)
