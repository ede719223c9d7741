"""Gossip: graphs, the penalty form, exchanges counted, one rank a node."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import geartrain as gt
from geartrain.distributed.gossip import Mixing
from geartrain.distributed.gossip_demo import local_term
from geartrain.distributed.graphs import NAMES, Block, Graph, OneProcess, make_graph

pytestmark = [
    pytest.mark.outside,  # processes that talk by MPI
    pytest.mark.same_everywhere,  # processes of one machine are compared
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("N", [2, 6, 12])
def test_named_graphs_are_connected_laplacians(name, N):
    graph = make_graph(name, N)
    np.testing.assert_array_equal(graph.W, graph.W.T)
    np.testing.assert_array_equal(graph.W.sum(axis=1), 0.0)
    assert graph.lambda_2 > 1e-8
    for i in range(N):
        assert graph.neighbours(i) == [j for j in range(N) if graph.W[i, j] < 0]


def test_spectra_in_closed_form():
    ring = np.sort(2 - 2 * np.cos(2 * np.pi * np.arange(6) / 6))
    np.testing.assert_allclose(np.linalg.eigvalsh(make_graph("ring", 6).W), ring, atol=1e-12)
    star = make_graph("star", 7)
    assert (star.lambda_2, star.lambda_max) == pytest.approx((1.0, 7.0))
    # The product of paths of 3 and 4 nodes.
    paths = [2 - 2 * np.cos(np.pi * np.arange(k) / k) for k in (3, 4)]
    product = np.sort(np.add.outer(*paths).ravel())
    np.testing.assert_allclose(np.linalg.eigvalsh(make_graph("grid", 12).W), product, atol=1e-12)


def test_other_graphs():
    import networkx

    ring = make_graph("ring", 6).W
    adjacency = np.diag(np.diag(ring)) - ring
    for given in (ring, adjacency, networkx.cycle_graph(6)):
        np.testing.assert_array_equal(make_graph(given, 6).W, ring)
    weighted = make_graph([[0.0, 0.5], [0.5, 0.0]], 2)
    np.testing.assert_array_equal(weighted.W, [[0.5, -0.5], [-0.5, 0.5]])
    one, other = (make_graph("erdos-renyi", 12, seed=s).W for s in (0, 1))
    assert not np.array_equal(one, other)


def test_bad_graphs():
    with pytest.raises(ValueError, match="unknown graph 'path'"):
        make_graph("path", 4)
    with pytest.raises(ValueError, match="not connected"):
        make_graph(np.kron(np.eye(2), [[0, 1], [1, 0]]), 4)
    with pytest.raises(ValueError, match="symmetric"):
        make_graph([[0, 1], [0, 0]], 2)
    with pytest.raises(ValueError, match="3 nodes"):
        make_graph(np.ones((2, 2)), 3)
    with pytest.raises(ValueError, match="negative"):
        make_graph([[0, -1, 2], [-1, 0, 2], [2, 2, 0]], 3)
    with pytest.raises(ValueError, match="at least two"):
        make_graph("ring", 1)


@pytest.mark.parametrize("N", [3, 8, 20])
def test_chebyshev_mixing(N):
    """M is the stated polynomial of W, in K exchanges, with eigenvalues in [low, high]."""
    graph = make_graph("ring", N)
    mixing = Mixing(graph, OneProcess(graph), accelerated=True)
    M = np.column_stack([mixing(column) for column in np.eye(N)])
    assert mixing.done == N * mixing.exchanges == N * int(np.ceil(np.sqrt(graph.chi)))
    values, vectors = np.linalg.eigh(graph.W)
    if mixing.exchanges > 1:
        T = np.polynomial.Chebyshev.basis(mixing.exchanges)
        expected = 1 - T(mixing.c2 * (1 - mixing.c3 * values)) / T(mixing.c2)
        np.testing.assert_allclose(M, (vectors * expected) @ vectors.T, atol=1e-12)
    positive = np.linalg.eigvalsh((M + M.T) / 2)[1:]
    assert mixing.low - 1e-12 <= positive[0] and positive[-1] <= mixing.high + 1e-12
    assert mixing.high / mixing.low <= 3.0
    np.testing.assert_allclose(M @ np.ones(N), 0.0, atol=1e-12)


@pytest.mark.parametrize("chebyshev", [False, True])
def test_penalty_form(chebyshev):
    """h and g are what they are called, and g's calls are exchanges."""
    N, d = 6, 10
    terms = [local_term(i) for i in range(N)]
    gossip = gt.distributed.Gossip(None, terms, "grid", eps=0.1, G=0.5, chebyshev=chebyshev)
    x = np.cos(np.arange(N * d))
    assert gossip.h.value(x) == pytest.approx(
        sum(f.value(b) for f, b in zip(terms, x.reshape(N, d), strict=True))
    )
    gt.check_term(gossip.h, n=N * d)
    gt.check_term(gossip.g, n=N * d)
    M = np.column_stack([gossip.g.mixing(column) for column in np.eye(N)]) if chebyshev else None
    M = gossip.graph.W if M is None else M
    weight = 0.25 / (gossip.g.mixing.low * 0.1)
    np.testing.assert_allclose(gossip.g.grad(x), 2 * weight * np.kron(M, np.eye(d)) @ x, atol=1e-9)
    assert 2 * weight * np.linalg.eigvalsh((M + M.T) / 2)[-1] * (1 - 1e-12) <= gossip.g.L
    assert max(f.L for f in terms) == gossip.h.L and gossip.h.mu == min(f.mu for f in terms)
    before = gossip.g.mixing.done
    res = gossip.minimize(tol=1e-6)
    K = gossip.g.mixing.exchanges
    # One more for the value at the end, which is monitoring.
    assert gossip.g.mixing.done - before == K * (res.calls["g.grad"] + 1)
    same = gt.minimize(gossip.h, gossip.g, method="afb", tol=1e-6)
    np.testing.assert_array_equal(res.x, same.x)


def test_penalty_reaches_the_consensus_optimum():
    """Within eps of min sum f_i, and nearly agreed, with the R of the theory."""
    N, d, eps = 6, 10, 1e-3
    terms = [local_term(i) for i in range(N)]
    mean = sum(terms[1:], start=1.0 * terms[0])
    best = gt.minimize(mean, gt.Quadratic(1e-12 * np.eye(d)), method="lbfgs", tol=1e-10)
    G = np.linalg.norm([f.grad(best.x) for f in terms])
    gossip = gt.distributed.Gossip(None, terms, "ring", eps=eps, G=G)
    res = gossip.minimize(tol=1e-7)
    assert abs(gossip.h.value(res.x) - best.fun) <= eps
    x = res.x.reshape(N, d)
    assert np.sum(x * (gossip.graph.W @ x)) <= (2 * eps) ** 2 * gossip.graph.lambda_2 / G**2


# Paper: decentralised optimisation
def test_separation_on_rings():
    """Local gradients do not see the graph, exchanges grow like sqrt(chi)."""
    chi, local, exchanges = [], [], []
    for N in (4, 8, 16, 32, 64):
        terms = [local_term(i) for i in range(N)]
        gossip = gt.distributed.Gossip(None, terms, "ring", eps=0.1, G=0.5)
        res = gossip.minimize(tol=1e-4)
        chi.append(gossip.graph.chi)
        local.append(res.calls["h.grad"])
        exchanges.append(res.calls["g.grad"])
    slope = [np.polyfit(np.log(chi), np.log(calls), 1)[0] for calls in (local, exchanges)]
    assert slope[0] <= 0.15
    assert slope[1] == pytest.approx(0.5, abs=0.15)


def test_bad_input():
    with pytest.raises(TypeError, match="local_term must be a term"):
        gt.distributed.Gossip(None, [1.0, 2.0])
    with pytest.raises(ValueError, match="one dimension"):
        gt.distributed.Gossip(None, [gt.Quadratic(np.eye(2)), gt.Quadratic(np.eye(3))])
    plain = gt.Term(lambda x: (x @ x, 2 * x), n=2)
    with pytest.raises(ValueError, match="must know its L"):
        gt.distributed.Gossip(None, [plain, plain])


def test_blocks_have_inner_products_only():
    graph = Graph(np.array([[1.0, -1.0], [-1.0, 1.0]]))

    class Twice(OneProcess):
        def total(self, number):
            return 2 * number

    block = Block.of(np.array([3.0, 4.0]), Twice(graph))
    assert block @ block == block.dot(block) == np.dot(block, block) == 50.0
    assert np.dot(np.ones(2), block) == 14.0
    assert (2.0 * block + np.ones(2)).dot(np.ones(2)) == 32.0
    with pytest.raises(TypeError, match="inner products only"):
        block @ np.eye(2)


# Ranks wait busily for each other: four of them on two cores take long for every message.
@pytest.mark.parametrize("iterations", [2, pytest.param(12, marks=pytest.mark.long)])
def test_one_rank_a_node(iterations):
    """Four ranks of MPI: the iterates of one process, method by method, graph by graph."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    script = Path(__file__).with_name("four_ranks.py")
    command = [mpiexec, "-n", "4", sys.executable, "-m", "mpi4py", script, str(iterations)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compared 6 runs" in done.stdout
