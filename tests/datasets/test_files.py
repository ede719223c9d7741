"""Readers against small files written here; the real files are read where they are."""

import numpy as np
import pytest

from geartrain import datasets

pytestmark = pytest.mark.same_everywhere  # text that is read


def test_missing_folder_names_the_variable(monkeypatch):
    monkeypatch.delenv(datasets.DATA_VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match="GEARTRAIN_DATA"):
        datasets.load_gas_sensors()


def test_missing_file_names_the_variable(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a9a\.libsvm is not in .*GEARTRAIN_DATA"):
        datasets.load_libsvm("a9a.libsvm", folder=tmp_path)


def test_gas_sensors_as_uci_ships_them(tmp_path):
    (tmp_path / "HT_Sensor_metadata.dat").write_text(
        "id\tdate\t\tclass\tt0\tdt\n0\t07-04-15\tbanana\t13.49\t1.64 \n"
        "1\t07-05-15\twine\t19.61\t0.54 \n2\t07-06-15\tbackground\t19.99\t0.66 \n"
    )
    sensors = "   1.0  2.0  3.0  4.0  5.0  6.0  7.0  8.0  26.0  59.0"
    header = "id time       R1 R2 R3 R4 R5 R6 R7 R8 Temp. Humidity\n"
    rows = [f"{i}  {t} {sensors}" for i in range(3) for t in ("-0.99", "0.5")]
    (tmp_path / "HT_Sensor_dataset.dat").write_text(header + "\n".join(rows) + "\n")
    table = datasets.load_gas_sensors(tmp_path, scale=False)
    assert table.X.shape == (4, 11) and "second" in table.source
    np.testing.assert_array_equal(table.y, [1, 1, -1, -1])
    np.testing.assert_array_equal(table.X[0], [-0.99, 1, 2, 3, 4, 5, 6, 7, 8, 26, 59])
    scaled = datasets.load_gas_sensors(tmp_path, classes=("wine", "background"))
    np.testing.assert_array_equal(scaled.X[:, 0], [0, 1, 0, 1])
    assert (scaled.X[:, 1:] == 0).all()
    assert datasets.load_gas_sensors(tmp_path, max_rows=2).y.size == 2
    with pytest.raises(ValueError, match="classes must be two"):
        datasets.load_gas_sensors(tmp_path, classes=("wine", "beer"))


def test_gas_sensors_by_minutes(tmp_path):
    names = ",".join(f"R{i}" for i in range(1, 9))
    lines = [f"id,minute,{names},Temp,Humidity,class"]
    for i, label in enumerate(("banana", "background", "wine")):
        lines.append(f"{i},{i}," + ",".join(str(i + j) for j in range(10)) + f",{label}")
    (tmp_path / "gas_sensors_minutes.csv").write_text("\n".join(lines) + "\n")
    table = datasets.load_gas_sensors(tmp_path)
    assert table.X.shape == (2, 11) and "minute" in table.source
    np.testing.assert_array_equal(table.y, [1, -1])


def test_libsvm(tmp_path):
    path = tmp_path / "tiny.libsvm"
    path.write_text("+1 1:0.5 3:-2 # a remark\n\n-1\n2.5 2:1e-3\n")
    table = datasets.load_libsvm(path, n_features=4)
    np.testing.assert_array_equal(table.y, [1, -1, 2.5])
    expected = [[0.5, 0, -2, 0], [0, 0, 0, 0], [0, 1e-3, 0, 0]]
    np.testing.assert_array_equal(table.X.toarray(), expected)
    assert datasets.load_libsvm("tiny.libsvm", folder=tmp_path).X.shape == (3, 3)
    with pytest.raises(ValueError, match="more than n_features=2"):
        datasets.load_libsvm(path, n_features=2)
    path.write_text("1 1:2\n1 oops\n")
    with pytest.raises(ValueError, match="line 2"):
        datasets.load_libsvm(path)
    path.write_text("1 0:2\n")
    with pytest.raises(ValueError, match="start at 1"):
        datasets.load_libsvm(path)


def test_counts_and_old_faithful(tmp_path):
    (tmp_path / "text8_word_counts.tsv").write_text("the\t3\nof\t2\n")
    (tmp_path / "faithful.csv").write_text('"","eruptions","waiting"\n"1",3.6,79\n')
    words, counts = datasets.load_counts(folder=tmp_path)
    assert list(words) == ["the", "of"] and list(counts) == [3, 2]
    np.testing.assert_array_equal(datasets.load_old_faithful(tmp_path).X, [[3.6, 79]])
