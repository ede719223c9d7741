"""Tables: complete, honest about calls, kept over an interruption."""

from __future__ import annotations

import functools
import json

import numpy as np
import pandas as pd
import pytest

import geartrain as gt
from geartrain_lab import runner
from geartrain_lab.experiments import densities
from geartrain_lab.runner import Case, Entry, Probe, Stage, TargetOrTime, progress, run_stage
from geartrain_lab.store import Store, config_hash

pytestmark = pytest.mark.same_everywhere  # files and rows


@functools.cache
def small_case():
    A = np.random.default_rng(0).standard_normal((80, 12))
    h = gt.LinearModel(A, np.sign(A[:, 0] + 0.5), loss="logistic")
    g = gt.Quadratic(np.diag(np.geomspace(1e-2, 50.0, 12)))
    best = gt.minimize(h, g, method="lbfgs", tol=1e-13)
    facts = {"L_h": h.L, "L_g": g.L, "n": 12, "m": 80}
    return Case("test", "small", "made up", h, g, best.fun, facts)


FGM, AFB = (
    Entry("FGM", "", lambda case: gt.methods.FGM()),
    Entry("AFB", "", lambda case: gt.methods.AFB()),
)


def run(folder, *entries, target=1e-6):
    stage = Stage(small_case, entries or (FGM, AFB), target=target, limit=3600.0)
    with progress(stage.runs) as status:
        return run_stage(stage, Store(folder), status)


def test_a_table_tells_everything(tmp_path):
    table = run(tmp_path)
    assert list(dict.fromkeys(table.method)) == ["FGM", "AFB"]
    wanted = {"experiment", "data", "method", "seed", "settings", "version", "machine", "iter"}
    assert wanted | {"seconds", "f", "gap", *runner.CALLS} <= set(table.columns)
    settings = json.loads(table.settings.iloc[0])
    assert settings["method"] == repr(gt.methods.FGM()) and settings["L_h"] == settings["L_h used"]
    assert not table.isna().any(axis=None)


def test_rows_are_those_of_the_run_itself(tmp_path):
    table, case = run(tmp_path), small_case()
    for label, method in (("FGM", gt.methods.FGM()), ("AFB", gt.methods.AFB())):
        rows = table[table.method == label]
        last = int(rows.iter.iloc[-1])
        stop = gt.stop.Value(case.f_star - 1.0)  # only so that f is in the history
        plain = gt.minimize(case.h, case.g, method=method, stop=stop, max_iter=last).history
        kept = rows.iter.to_numpy()
        for key in ("f", *runner.CALLS):
            # f at the returned point may be on the bill of the plain run, in its last row
            most = len(kept) - key.endswith(".value")
            np.testing.assert_array_equal(rows[key][:most], plain[key][kept][:most])
        np.testing.assert_array_equal(rows.gap, rows.f - case.f_star)
        assert (np.diff(rows.seconds) >= 0.0).all()


def test_both_files_hold_the_same_table(tmp_path):
    run(tmp_path)
    files = sorted(tmp_path.glob("*.csv"))
    assert len(files) == 2
    for csv in files:
        left = pd.read_csv(csv, dtype={"config": str})
        right = pd.read_parquet(csv.with_suffix(".parquet"))
        pd.testing.assert_frame_equal(left, right, check_dtype=False, rtol=1e-14)
    assert not list(tmp_path.glob(".*"))


def test_probe_is_paid_for(tmp_path):
    probed = Entry("FGM", "", lambda case: gt.methods.FGM(), probe=lambda case: Probe(99.0, 7, 0.5))
    plain, dearer = run(tmp_path / "a", FGM), run(tmp_path / "b", probed)
    assert dearer["h.grad"].iloc[0] == plain["h.grad"].iloc[0] + 7
    assert dearer.seconds.iloc[0] >= 0.5
    assert json.loads(dearer.settings.iloc[0])["L_h used"] == 99.0


def test_a_run_that_is_there_is_not_made_again(tmp_path, monkeypatch):
    first = run(tmp_path)

    def minimize(*args, **kwargs):
        raise AssertionError("asked again")

    monkeypatch.setattr(gt, "minimize", minimize)
    pd.testing.assert_frame_equal(first, run(tmp_path), check_dtype=False)
    with pytest.raises(AssertionError, match="asked again"):
        run(tmp_path, target=1e-7)


@pytest.mark.parametrize("last", [0, 7])  # while warming up, and in the run
def test_an_interrupted_run_leaves_what_was_finished_and_nothing_else(tmp_path, last):
    class Interrupted(gt.methods.FGM):
        def step(self, problem, state):
            if state.k == last:
                raise KeyboardInterrupt
            return super().step(problem, state)

    broken = Entry("broken", "", lambda case: Interrupted())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, FGM, broken, AFB)
    assert [p.name for p in sorted(tmp_path.iterdir())] == [
        "test-small-fgm.csv",
        "test-small-fgm.parquet",
    ]
    assert list(dict.fromkeys(run(tmp_path, FGM, AFB).method)) == ["FGM", "AFB"]


def test_a_damaged_table_is_made_again(tmp_path):
    first = run(tmp_path, FGM)
    (tmp_path / "test-small-fgm.parquet").write_text("")
    again = run(tmp_path, FGM)
    assert len(first) > 40
    for column in ("iter", "f", "h.grad", "g.grad"):  # nothing goes by the clock
        np.testing.assert_array_equal(first[column], again[column])


def test_a_hash_that_looks_like_a_number_is_found_again(tmp_path):
    store = Store(tmp_path)
    table = pd.DataFrame({"x": [1.0], "word": ["null"]})
    for config in ("1234567890123456", "12345678901e2345", "0000000000000012"):
        store.put("t", config, table)
        assert store.get("t", config).word.iloc[0] == "null"
        assert store.get("t", "another") is None


def test_hash_depends_on_every_setting():
    base = {"a": 1, "b": [1.0, 2.0]}
    others = ({"a": 2, "b": [1.0, 2.0]}, {"a": 1, "b": [1.0, 2.0 + 1e-15]}, {"a": 1})
    assert config_hash(base) == config_hash(dict(reversed(base.items())))
    assert len({config_hash(c) for c in (base, *others)}) == 4


class Look:
    """A run whose f falls by half every second."""

    A = 0.0

    def __init__(self):
        self.calls, self.seconds, self.looks = {}, 0.0, 0

    def f(self):
        self.looks += 1
        return 2.0**-self.seconds


def test_watch_looks_rarely_and_ends_at_target_or_limit():
    for target, limit, status in ((0.25, 10.0, "CONVERGED"), (0.0, 3.0, "BUDGET")):
        look, watch = Look(), TargetOrTime(0.0, target, limit)
        while (ended := watch.check(look)) is None:
            look.seconds += 1e-3
        assert ended.name == status
        exact = 2.0 if status == "CONVERGED" else 3.0
        assert exact <= look.seconds <= 1.01 * exact
        assert look.looks < 1000  # of two or three thousand iterations


def test_a_run_that_is_over_has_its_line(tmp_path, capsys):
    table = run(tmp_path, FGM)
    told = f"{table.gap.min():.1e} {table.seconds.max():.1f} s"
    assert capsys.readouterr().err.split() == f"test small: FGM f - f* {told}".split()


SAMPLED = Entry(
    "sampled",
    "",
    lambda case: gt.methods.AFB(inner=gt.inner.ACD()),
    randomised=True,
    L_h="bound of the term",
)


def test_a_randomised_method_is_run_with_five_seeds(tmp_path):
    table = run(tmp_path, SAMPLED, FGM)
    seeds = table.groupby("method").seed.unique()
    assert list(seeds["sampled"]) == [0, 1, 2, 3, 4] and list(seeds["FGM"]) == [0]
    last = table[table.method == "sampled"].groupby("seed").f.last()
    assert last.nunique() == 5  # the seed is used


def test_seeds_that_are_there_are_kept_and_the_others_run(tmp_path, monkeypatch):
    whole = run(tmp_path / "a", SAMPLED)
    runs = []

    def interrupted(*args, **kwargs):
        runs.append(kwargs.get("seed"))
        if kwargs.get("seed") == 2:
            raise KeyboardInterrupt
        return minimize(*args, **kwargs)

    minimize = gt.minimize
    monkeypatch.setattr(gt, "minimize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "b", SAMPLED)
    monkeypatch.setattr(gt, "minimize", minimize)
    kept = pd.read_parquet(tmp_path / "b" / "test-small-sampled.parquet")
    assert list(kept.seed.unique()) == [0, 1]
    again = run(tmp_path / "b", SAMPLED)
    for column in ("seed", "iter", "f", "h.grad", "g.coord"):
        np.testing.assert_array_equal(whole[column], again[column])


def test_missing_densities_are_named_and_a_set_of_scikit_learn_takes_their_place(tmp_path):
    table, missing = densities.tables(tmp_path, Store(tmp_path / "tables"))
    assert missing == ["text8 characters", "text8 words", "Old Faithful"]
    assert list(table.case.unique()) == ["breast cancer"]
    assert table.fitted.sum() == pytest.approx(1.0)
    assert abs(table.fitted - table.observed).max() < 0.03


def test_density_of_counts_is_the_maximum_of_the_posterior(tmp_path):
    (tmp_path / "text8_char_counts.tsv").write_text("' '\t50\n'e'\t30\n'null'\t20\n")
    table, _ = densities.tables(tmp_path, Store(tmp_path / "tables"))
    assert list(table.point) == ["blank", "e", "null"]
    # Optimality: observed - fitted = x/m, and x = ln fitted + const with sum x = 0.
    x = np.log(table.fitted) - np.log(table.fitted).mean()
    np.testing.assert_allclose(table.observed - table.fitted, x / 100.0, atol=1e-5)


def test_what_differs_from_the_defaults_is_told():
    assert runner.changed(gt.methods.ProximalQuasiNewton()) == "ProximalQuasiNewton()"
    told = runner.changed(gt.methods.SAE(sigma=0.9, inner=gt.inner.Katyusha(epoch=7)))
    assert told == "SAE(sigma=0.9, inner=Katyusha(epoch=7))"
