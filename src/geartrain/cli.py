"""The console script ``geartrain``."""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import FrameType
from typing import NoReturn

from geartrain import __version__, theory
from geartrain.oracles.validation import as_nonnegative

_TIE = 1e-9  # bills that differ by less than this, relatively, are equal


def _plan(args: argparse.Namespace) -> None:
    """Print what the theory says for given constants."""
    if len(args.L_h) > 1:
        _plan_levels(args)
        return
    (args.L_h,), (args.price_h,) = args.L_h, _price_per_term(args)
    as_nonnegative(args.price_h, "--price-h")
    as_nonnegative(args.price_g, "--price-g")
    rows = theory.compare(
        L_h=args.L_h,
        L_g=args.L_g,
        mu=args.mu,
        eps=args.eps,
        R=args.R,
        n=args.n,
        m=args.m,
        L_g_bar=args.L_g_bar,
        L_h_bar=args.L_h_bar,
        L_g_mean=args.L_g_mean,
    )
    case = "strongly convex" if args.mu > 0 else "convex"
    print(f"{case} f = h + g: L_h = {args.L_h:g}, L_g = {args.L_g:g}, mu = {args.mu:g}, ", end="")
    print(f"eps = {args.eps:g}, R = {args.R:g}")
    print("calls up to constants (Section 2 and Corollaries 1-3)")
    print(f"bill = {args.price_h:g} per gradient of h + {args.price_g:g} per gradient of g", end="")
    print(" (--price-h and --price-g, 1 if not given)\n")
    print(f"{'method':16}{'calls of h':>14}{'calls of g':>14}{'bill':>14}   asked for")
    rows["AFB"] = rows["SAE"]  # the same orders
    bills, lines = {}, {}
    for name, calls in rows.items():
        kind, per_h, per_g = _per_gradient(name, args)
        lines[name] = per_h * calls["h"], per_g * calls["g"]
        bills[name] = args.price_h * lines[name][0] + args.price_g * lines[name][1]
        print(f"{name:16}{calls['h']:14.4g}{calls['g']:14.4g}{bills[name]:14.4g}   {kind}")
    most = math.sqrt(args.L_h / args.eps) * args.R
    print(f"\npqn learns the curvature of h: its calls of h are of the order {most:.4g} at most,")
    print("by its safeguard, and fewer in practice; there is no bound on its calls of g")
    print(f"\nsmallest bill: {_cheapest(bills)}")
    print(f"by the price of a gradient of h over that of g: {_by_ratio(lines)}")
    if args.L_g < args.L_h:
        print("note: L_g < L_h, so the corollaries do not apply; exchange h and g")
    gain = bills["FGM"] / bills["SAE"] if bills["SAE"] > 0 else 1.0
    if gain < 1.5:
        print(f"separation gains a factor of {gain:.2g} at most over FGM: hardly worth it")


def _price_per_term(args: argparse.Namespace) -> list[float]:
    """The prices of the terms h; one price holds for all of them."""
    prices, terms = args.price_h, len(args.L_h)
    if len(prices) not in (1, terms):
        raise ValueError(f"--price-h takes one price or {terms}, one per --L-h; got {len(prices)}")
    return prices * terms if len(prices) == 1 else prices


def _plan_levels(args: argparse.Namespace) -> None:
    """Print the order of the levels of more than two terms, and the calls of each."""
    for name, size in (("--n", args.n), ("--m", args.m)):
        if size is not None:
            raise ValueError(f"{name} is for a single --L-h: of several terms gradients are asked")
    names = [f"h{i + 1}" for i in range(len(args.L_h))] + ["g"]
    L = dict(zip(names, [*args.L_h, args.L_g], strict=True))
    prices = dict(zip(names, [*_price_per_term(args), args.price_g], strict=True))
    case = {"mu": args.mu, "eps": args.eps, "R": args.R}
    theory.calls("full", L_h=args.L_h, L_g=args.L_g, **case)  # raises for constants that none has
    levels = theory.order(L, prices, mu=args.mu)
    print(f"f = {' + '.join(names)}: mu = {args.mu:g}, eps = {args.eps:g}, R = {args.R:g}")
    print(f"levels with the smallest bill: {' > '.join(' + '.join(level) for level in levels)}")
    print("calls up to constants; terms on one level are asked together\n")
    print(f"{'term':8}{'L':>12}{'price':>12}{'calls':>14}{'bill':>14}")
    level_of = {name: i for i, level in enumerate(levels) for name in level}
    constants = [sum(L[name] for name in level) for level in levels]
    found = theory.level_calls(constants, **case)
    total = 0.0
    for name in names:
        calls = found[level_of[name]]
        total += calls * prices[name]
        print(
            f"{name:8}{L[name]:12.4g}{prices[name]:12.4g}{calls:14.4g}{calls * prices[name]:14.4g}"
        )
    whole = theory.level_calls([sum(constants)], **case)[0] * sum(prices.values())
    print(f"\nbill {total:.4g}, {whole / total:.3g} times smaller than that of FGM, {whole:.4g}")


def _cheapest(bills: dict[str, float]) -> str:
    """The method with the smallest bill, and those whose bill is the same to rounding."""
    least = min(bills.values())
    first, *ties = (name for name, bill in bills.items() if bill <= least * (1.0 + _TIE))
    return f"{first}, tied with {' and '.join(ties)}" if ties else first


def _by_ratio(lines: dict[str, tuple[float, float]]) -> str:
    """Which method is the cheapest from which ratio of prices on.

    The bill of a method is a line in the ratio: calls of h times the ratio, and calls of g.
    """
    at = 0.0
    told: list[str] = []
    name = min(lines, key=lambda key: (lines[key][1], lines[key][0]))
    while True:
        h, g = lines[name]
        told.append(f"from {at:.3g} on {name}" if told else name)
        # Cheaper later on are the methods that ask h less; the first to cross is the next.
        later = {
            key: (other_g - g) / (h - other_h)
            for key, (other_h, other_g) in lines.items()
            if other_h < h * (1.0 - _TIE)
        }
        if not later:
            return ", ".join(told)
        name = min(later, key=lambda key: (later[key], lines[key][0]))
        at = later[name]


def _per_gradient(name: str, args: argparse.Namespace) -> tuple[str, float, float]:
    """What a row's basic calls are, and what part of a gradient one is, of h and of g."""
    if name == "ACD":
        return "partial derivatives of h and g", 1.0 / args.n, 1.0 / args.n
    if name == "SAE coordinate":
        return "gradients of h, partial derivatives of g", 1.0, 1.0 / args.n
    if name == "Katyusha":
        return "gradients of h and of summands of g", 1.0, 1.0 / args.m
    if name == "SAE finite-sum":
        return "gradients of h, gradients of summands of g", 1.0, 1.0 / args.m
    return "gradients", 1.0, 1.0


# Names of `geartrain bench`, the modules of `geartrain_lab` that run them, and what they measure.
_BENCHES = {
    "composite": ("benches.composite", "calls with a non-smooth term, against proximal methods"),
    "constraints": ("benches.constraints", "calls of h under linear constraints, against SLSQP"),
    "distributed": ("benches.cluster", "rounds and seconds on a Dask cluster, against dask-glm"),
    "equilibria": ("benches.equilibria", "calls on 120 random equilibria, against the best rival"),
    "estimators": ("benches.kernel_svc", "seconds of KernelSVC and KernelSVR, against libsvm"),
    "frontier": ("benches.frontier", "calls on real data at three prices, against all methods"),
    "kernels": ("benches.compiled_loops", "compiled loops against the speed of memory"),
    "profile": ("benches.profile", "calls on 330 random problems, against L-BFGS"),
    "seconds": ("seconds.measure", "seconds with default settings, against the best of each field"),
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _bench(args: argparse.Namespace) -> None:
    """Run a benchmark by name."""
    from geartrain_lab.store import writable_file

    if args.json is not None:
        writable_file(args.json, "--json")
    import_module(f"geartrain_lab.{_BENCHES[args.name][0]}").run(
        json_file=args.json, quick=args.quick
    )


def _reproduce(args: argparse.Namespace) -> None:
    """Run the paper's experiments."""
    from geartrain_lab.reproduce import reproduce

    reproduce(args.what, args.out, quick=args.quick, data=args.data)


def _parser() -> argparse.ArgumentParser:
    what = "Minimise h + g, asking each term only as often as it needs: plans and measurements."
    parser = _Parser(prog="geartrain", description=what)
    parser.add_argument("--version", action="version", version=f"geartrain {__version__}")
    # --debug may stand on both sides of the command; its default is set once, here.
    debug = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    debug.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, about, run, add_arguments in (
        ("plan", "calls that the theory predicts, method by method", _plan, _add_plan),
        ("bench", "measure the library against others", _bench, _add_bench),
        (
            "reproduce",
            "the paper's experiments (Section 5): tables, figures and a report",
            _reproduce,
            _add_reproduce,
        ),
    ):
        command = commands.add_parser(name, help=about, description=about, parents=[debug])
        add_arguments(command)
        command.set_defaults(run=run)
    return parser


def _add_plan(plan: argparse.ArgumentParser) -> None:
    plan.add_argument(
        "--L-h",
        dest="L_h",
        type=float,
        nargs="+",
        required=True,
        help="smoothness of h; several numbers for several terms h1, h2, ...",
    )
    plan.add_argument("--L-g", dest="L_g", type=float, required=True, help="smoothness of g")
    plan.add_argument("--mu", type=float, default=0.0, help="strong convexity of f (default 0)")
    plan.add_argument("--eps", type=float, required=True, help="accuracy in f")
    plan.add_argument("--R", type=float, default=1.0, help="distance to the solution (default 1)")
    plan.add_argument("--n", type=int, help="dimension, for coordinate methods")
    plan.add_argument("--m", type=int, help="number of summands of g, for finite-sum methods")
    of = "mean of sqrt(L_i) over the coordinates, squared"
    plan.add_argument("--L-g-bar", dest="L_g_bar", type=float, help=f"of g: {of} (default L_g)")
    plan.add_argument("--L-h-bar", dest="L_h_bar", type=float, help=f"of h: {of} (default L_h)")
    plan.add_argument(
        "--L-g-mean", dest="L_g_mean", type=float, help="mean smoothness of a summand (default L_g)"
    )
    plan.add_argument(
        "--price-h",
        type=float,
        nargs="+",
        default=[1.0],
        help="price of a gradient of h, or of every one of its terms (default 1)",
    )
    plan.add_argument(
        "--price-g", type=float, default=1.0, help="price of a gradient of g (default 1)"
    )


def _add_bench(bench: argparse.ArgumentParser) -> None:
    bench.formatter_class = argparse.RawDescriptionHelpFormatter
    bench.epilog = "names:\n" + "\n".join(f"  {k:14}{v}" for k, (_, v) in _BENCHES.items())
    bench.add_argument("name", choices=sorted(_BENCHES), help="what to measure, see below")
    bench.add_argument("--json", metavar="FILE", help="write the figures to FILE as well")
    bench.add_argument("--quick", action="store_true", help="a small part, in a minute or two")


def _add_reproduce(again: argparse.ArgumentParser) -> None:
    again.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=["kernel-svm", "log-density", "all"],
        help="which experiment (default all)",
    )
    again.add_argument("--out", metavar="DIR", default="out/reproduce", help="folder for results")
    again.add_argument("--quick", action="store_true", help="a minute or two, with less data")
    again.add_argument(
        "--data",
        metavar="DIR",
        help="folder with data (default: GEARTRAIN_DATA; without the files, data that scikit-learn "
        "ships)",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; a failure is one line on stderr and a non-zero exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process if not given.

    Returns
    -------
    int
        The exit code.
    """
    args = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], None] = args.run
    with _noticed_interrupts() as interrupts:
        try:
            run(args)
        except KeyboardInterrupt:
            interrupts.append(True)
        except Exception as error:
            if args.debug:
                raise
            if not interrupts:
                print(f"geartrain: {error}", file=sys.stderr)
                return 1
    if interrupts:
        print("geartrain: interrupted", file=sys.stderr)
        return 130
    return 0


@contextlib.contextmanager
def _noticed_interrupts() -> Iterator[list[bool]]:
    """A list that is not empty after Ctrl-C, even where code in between swallowed the exception.

    Callbacks from compiled code and finalisers cannot pass a KeyboardInterrupt on.
    """
    seen: list[bool] = []

    def notice(number: int, frame: FrameType | None) -> None:
        seen.append(True)
        signal.default_int_handler(number, frame)

    try:
        before = signal.signal(signal.SIGINT, notice)
    except ValueError:  # not in the main thread, which alone gets signals
        yield seen
        return
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
