r"""Decentralised optimisation: nodes of a graph that talk to their neighbours only.

==========  =============  ==================================================================
symbol      name           meaning
==========  =============  ==================================================================
N, d        --             number of nodes, and dimension of each x_i
x           ``x``          the blocks x_1, ..., x_N one after the other
W           ``graph.W``    Laplacian, acting on blocks
h           ``h``          sum_i f_i(x_i): one call is one local gradient on every node
g           ``g``          (R^2/eps) <x, W x>: one call is one exchange with the neighbours
M           ``mixing``     W, or a Chebyshev polynomial of W: K exchanges per call, chi at most 3
==========  =============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from geartrain.core.driver import Run
from geartrain.core.interrupts import Interrupts
from geartrain.core.result import Result
from geartrain.core.stopping import Gradient, Rule
from geartrain.distributed.graphs import (
    Block,
    BlockOracle,
    Graph,
    Network,
    OneProcess,
    OverMPI,
    make_graph,
)
from geartrain.methods.registry import make_method
from geartrain.oracles.algebra import Algebra
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.protocols import Asked, Vector, can
from geartrain.oracles.validation import as_positive
from geartrain.problem import Constant, Sum

DEFAULT_MAX_ITER = 100_000
# Methods that use vectors only through sums, multiples and inner products.
OVER_MPI = ("sae", "r-sae", "sc-sae", "afb", "aeg", "fgm")


class LocalTerms(Algebra):
    """The term h(x) = sum_i f_i(x_i) over the nodes of this process, each x_i of d numbers."""

    convex = True

    def __init__(self, terms: Sequence[Any], d: int, network: Network, L: float, mu: float) -> None:
        self.terms, self.d, self.network = terms, d, network
        self._asked = [Asked(term) for term in terms]
        self.n = d * len(terms)
        self.L, self.mu = L, mu

    def _pairs(self, x: Vector) -> Iterator[tuple[Asked, Vector]]:
        return zip(self._asked, np.asarray(x).reshape(-1, self.d), strict=True)

    def grad(self, x: Vector) -> Vector:
        """One local gradient on every node, without communication."""
        return np.concatenate([f.grad(block) for f, block in self._pairs(x)])

    def value(self, x: Vector) -> float:
        return self.network.total(sum(f.value(block) for f, block in self._pairs(x)))


class Mixing:
    """M = W, or a Chebyshev polynomial of W in K exchanges.

    If `accelerated`, M = I - T_K(c2 (I - c3 W))/T_K(c2) with K = ceil(sqrt(chi)), which has its
    eigenvalues in 1 -+ 1/T_K(c2) off the kernel of W ([2]_ of `Gossip`).
    """

    def __init__(self, graph: Graph, network: Network, accelerated: bool) -> None:
        self.network = network
        self.exchanges = math.ceil(math.sqrt(graph.chi)) if accelerated else 1  # K
        self.done = 0  # exchanges so far, counted or not
        self.low, self.high = graph.lambda_2, graph.lambda_max
        if self.exchanges > 1:
            self.c2 = (graph.lambda_max + graph.lambda_2) / (graph.lambda_max - graph.lambda_2)
            self.c3 = 2.0 / (graph.lambda_max + graph.lambda_2)
            spread = 1.0 / math.cosh(self.exchanges * math.acosh(self.c2))  # 1/T_K(c2)
            self.low, self.high = 1.0 - spread, 1.0 + spread

    def _exchange(self, x: Vector) -> Vector:
        self.done += 1
        return self.network.exchange(x)

    def __call__(self, x: Vector) -> Vector:
        if self.exchanges == 1:
            return self._exchange(x)
        c2, c3 = self.c2, self.c3
        a_old, a = 1.0, c2
        old, new = x, c2 * (x - c3 * self._exchange(x))
        for _ in range(self.exchanges - 1):
            a_old, a = a, 2.0 * c2 * a - a_old
            old, new = new, 2.0 * c2 * (new - c3 * self._exchange(new)) - old
        return x - new / a


class Consensus(Algebra):
    """The term g(x) = weight <x, M x> with weight = R^2/eps; n coordinates are in this process."""

    convex = True
    mu = 0.0

    def __init__(self, mixing: Mixing, n: int, weight: float) -> None:
        self.mixing, self.n, self.weight = mixing, n, weight
        self.L = 2.0 * weight * mixing.high

    def grad(self, x: Vector) -> Vector:
        return 2.0 * self.weight * self.mixing(np.asarray(x))

    def value(self, x: Vector) -> float:
        plain = np.asarray(x)
        return self.weight * self.mixing.network.total(float(plain @ self.mixing(plain)))


# Paper: decentralised optimisation
class Gossip:
    r"""Minimise sum_i f_i(x_i) with x_1 = ... = x_N by the penalty (R^2/eps) <x, W x>.

    With R^2 >= \|y*\|^2 for a dual solution y* of the constraint sqrt(W) x = 0, the minimiser of
    the penalised sum has sum_i f_i within eps of the optimum and
    \|sqrt(W) x\| <= 2 eps/R. R^2 = \|grad F(x*)\|^2/lambda_2(W) is always large enough, and `G` is
    the bound of this gradient. The numbers of calls are separated: local gradients ~ sqrt(L/mu),
    exchanges ~ G sqrt(chi/(mu eps)).

    Parameters
    ----------
    comm : MPI communicator or None
        With None this process simulates all nodes; with a communicator every rank is a node and
        makes the same calls.
    local_term : term, or list of terms
        The f_i of this rank; with ``comm=None`` the list of all f_i.
    graph : str, networkx graph or array (N, N)
        See `geartrain.distributed.graphs.make_graph`.
    d : int, optional
        Dimension of each x_i, if the terms do not know it.
    eps : float
        Accuracy in sum_i f_i.
    G : float
        Bound of \|grad F(x*)\|, where F is the sum of f_i(x_i) over all nodes.
    chebyshev : bool
        Replace W by a polynomial of degree K = ceil(sqrt(chi)): a call of g then takes K
        exchanges, and chi is at most 3.
    seed : int
        Seed of the graph "erdos-renyi".

    Attributes
    ----------
    h, g : terms
        For ``gt.minimize(h, g)`` in one process; `minimize` works in both cases.
    graph : Graph
        The Laplacian W and its spectrum.

    Notes
    -----
    Stopping tests use inner products over all nodes. Over MPI these are reductions of one number
    each, in addition to the exchanges that are counted. Rules that read the clock may end ranks at
    different times; use `geartrain.stop.Calls` there.

    References
    ----------
    .. [1] E. Gorbunov, D. Dvinskikh, A. Gasnikov, Optimal decentralized distributed algorithms for
       stochastic convex optimization, arXiv:1911.07363 (2019).
    .. [2] K. Scaman et al., Optimal algorithms for smooth and strongly convex distributed
       optimization in networks, ICML (2017).

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> targets = np.arange(4.0)
    >>> terms = [gt.Quadratic(np.eye(1), [t]) for t in targets]
    >>> gossip = gt.distributed.Gossip(None, terms, "ring", eps=1e-3, G=3.0)
    >>> res = gossip.minimize(tol=1e-8)
    >>> res.success, bool(np.abs(res.x - 1.5).max() < 0.01)
    (True, True)
    """

    def __init__(
        self,
        comm: Any,
        local_term: Any,
        graph: Any = "ring",
        *,
        d: int | None = None,
        eps: float = 1e-3,
        G: float = 1.0,
        chebyshev: bool = False,
        seed: int = 0,
    ) -> None:
        terms = [local_term] if comm is not None else list(local_term)
        for term in terms:
            if not can(term, "grad"):
                raise TypeError(f"local_term must be a term, got {type(term).__name__}")
        sizes = {d} if d is not None else {getattr(term, "n", None) for term in terms}
        if len(sizes) != 1 or None in sizes:
            raise ValueError(f"all terms must have one dimension, got {sorted(map(str, sizes))}")
        size = int(sizes.pop())  # type: ignore[arg-type]
        n_nodes = len(terms) if comm is None else comm.size
        self.graph = make_graph(graph, n_nodes, seed)
        self.network: Network = (
            OneProcess(self.graph) if comm is None else OverMPI(self.graph, comm)
        )
        L, mu = _constants(terms, comm)
        self.h = LocalTerms(terms, size, self.network, L, mu)
        mixing = Mixing(self.graph, self.network, chebyshev)
        # R^2/eps with R^2 = G^2/lambda_2
        weight = as_positive(G, "G") ** 2 / (mixing.low * as_positive(eps, "eps"))
        self.g = Consensus(mixing, self.h.n, weight)

    def minimize(
        self,
        x0: Any = None,
        *,
        method: Any = "afb",
        inner: Any = "auto",
        stop: Rule | None = None,
        tol: float = 1e-6,
        max_iter: int = DEFAULT_MAX_ITER,
    ) -> Result:
        """Minimise h + g; over MPI all ranks call it together.

        Parameters
        ----------
        x0 : array, optional
            The blocks of this process; zero if not given.
        method, inner, stop, tol, max_iter
            As in `geartrain.minimize`.

        Returns
        -------
        Result
            `x` are the blocks of this process, ``calls["h.grad"]`` local gradients of every node,
            ``calls["g.grad"]`` exchanges (K of them each with `chebyshev`).
        """
        n, network = self.h.n, self.network
        start = np.zeros(n) if x0 is None else np.array(x0, dtype=np.float64).reshape(n)
        ledger = Ledger()
        h: Oracle
        g: Oracle
        if isinstance(network, OneProcess):
            h, g = Oracle(self.h, "h", ledger, n), Oracle(self.g, "g", ledger, n)
        else:
            if method not in OVER_MPI or inner not in ("auto", "agm"):
                raise ValueError(
                    f"over MPI method must be one of {', '.join(OVER_MPI)} with the inner method "
                    f"'agm', got {method!r} with {inner!r}"
                )
            h = BlockOracle(self.h, "h", ledger, n, network)
            g = BlockOracle(self.g, "g", ledger, n, network)
            start = Block.of(start, network)
        L_h, L_g, mu = (Constant(c, "term") for c in (self.h.L, self.g.L, self.h.mu))
        problem = Sum(h, g, L_h, L_g, mu)
        chosen = make_method(method, inner, problem)
        rule = Gradient(rel=as_positive(tol, "tol")) if stop is None else stop
        plan = f"gossip by {method!r}"
        with Interrupts() as interrupts:
            return Run(
                problem, chosen, rule, start, max_iter=max_iter, plan=plan, interrupts=interrupts
            ).go()


def _constants(terms: Sequence[Any], comm: Any) -> tuple[float, float]:
    """L and mu of h: the largest L_i and the smallest mu_i over all nodes."""
    known = [(getattr(t, "L", None), float(getattr(t, "mu", 0.0) or 0.0)) for t in terms]
    if comm is not None:
        known = [pair for pairs in comm.allgather(known) for pair in pairs]
    if any(L is None for L, _ in known):
        raise ValueError("every local term must know its L; give it, e.g. gt.Term(..., L=...)")
    return max(float(L) for L, _ in known if L is not None), min(mu for _, mu in known)
