"""Readers against small files written here; the real files are read where they are."""

import re
import tracemalloc

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
        "id\tdate\t\tclass\tt0\tdt\n6\t07-04-15\tbanana\t13.49\t1.64 \n"
        "1\t07-05-15\twine\t19.61\t0.54 \n3\t07-06-15\tbackground\t19.99\t0.66 \n"
    )
    sensors = "   1.0  2.0  3.0  4.0  5.0  6.0  7.0  8.0  26.0  59.0"
    header = "id time       R1 R2 R3 R4 R5 R6 R7 R8 Temp. Humidity\n"
    rows = [f"{i}  {t} {sensors}" for i in (6, 1, 3) for t in ("-0.99", "0.5")]
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


def test_memory_follows_the_entries_and_not_the_largest_index(tmp_path):
    path = tmp_path / "wide.libsvm"
    path.write_text("1 20000000:1\n-1 100000000:1\n")
    tracemalloc.start()
    table = datasets.load_libsvm(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.X.shape == (2, 100_000_000) and table.X.nnz == 2 and peak < 1e6
    assert len(table.feature_names) == 100_000_000 and table.feature_names[-1] == "x100000000"
    assert table.feature_names[:2] == ("x1", "x2")
    path.write_text(f"1 1:1\n1 {2**31}:1\n")
    with pytest.raises(ValueError, match=r"wide.libsvm, line 2: the index 2147483648 is larger"):
        datasets.load_libsvm(path)


ODD = "nan 1,5 : 3: :3 0:1 1:1 99999999999999999999:1 3:inf 3:-inf 3.0:2 ٣:1 3:٣ 3:0x10 3:--1 \x00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:nan", "line 1: values must be finite numbers, got '1:nan'"),
        ("1 1:1\n\nnan 1:1", "line 3: the label must be a finite number, got 'nan'"),
        ("1 1:1e999", "line 1: the value of the index 1 is too large"),
        ("1 1:1\n1e999", "line 2: the label is too large"),
        ("1 1:1_0", "line 1: values must be finite"),
        ("1 1_0:1", "line 1: indices must be whole numbers from 1 on, got '1_0'"),
        ("1 -3:1", "line 1: indices must be whole numbers from 1 on, got '-3'"),
        ("1 1:1\n1 2:1 2:3", "line 2: indices must increase within a row, but 2 does not"),
        ("1 5:1\n1 1:1 5:2 3:1", "line 2: indices must increase within a row, but 3 does not"),
        ("1 qid:3 1:1", "line 1: indices must be whole numbers"),
        ("1,2 1:1", "line 1: the label must be"),
        ("1 1:2:3", "line 1: expected 'label index:value ...'"),
        ("# nothing but a remark", "has no rows"),
        *((f"1 1:1\n1 2:1 {odd}", "line 2: ") for odd in ODD.split()),
        ("\ufeff1 1:1", "line 1: the label must be"),
        ("+-1 1:1", "line 1: the label must be"),
    ],
)
def test_odd_libsvm_files_are_refused(tmp_path, text, message):
    path = tmp_path / "odd.libsvm"
    path.write_text(text + "\n")
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        datasets.load_libsvm(path)
    assert str(path) in str(caught.value)


def test_tables_name_file_and_line(tmp_path):
    path = tmp_path / "faithful.csv"
    path.write_text('"","eruptions"\n"1",3.6\n')
    with pytest.raises(ValueError, match=r"faithful.csv, line 1: .* no column 'waiting'"):
        datasets.load_old_faithful(tmp_path)
    path.write_text('"","eruptions","waiting"\n"1",3.6,79\n\n"2",3.6\n')
    with pytest.raises(ValueError, match=r"faithful.csv, line 4: the row has 2 fields, .* has 3"):
        datasets.load_old_faithful(tmp_path)
    path.write_text('"","eruptions","waiting"\n"1",3.6,inf\n')
    with pytest.raises(ValueError, match=r"line 2: the column 'waiting' must be a finite number"):
        datasets.load_old_faithful(tmp_path)
    path.write_bytes(b'"","eruptions","waiting"\n"1",3.6,\xff\n')
    with pytest.raises(ValueError, match=r"line 2: this is not text in UTF-8"):
        datasets.load_old_faithful(tmp_path)
    for odd in ("nan", "1_0", "", "x", "1e400", "٣"):
        path.write_text(f'"","eruptions","waiting"\n"1",{odd},79\n')
        with pytest.raises(ValueError, match=r"line 2: the column 'eruptions' must be a finite"):
            datasets.load_old_faithful(tmp_path)
    counts = tmp_path / "text8_word_counts.tsv"
    for odd in ("of 2", "x\t-1", "x\t", "x\t1.5", "x\tnan", "x\t1_0", "x\t٣", "x\t" + 20 * "9"):
        counts.write_text(f"the\t3\n{odd}\n")
        with pytest.raises(ValueError, match=r"counts.tsv, line 2: "):
            datasets.load_counts(folder=tmp_path)
    counts.write_text("the\t3\nof 2\n")
    with pytest.raises(ValueError, match=r"counts.tsv, line 2: expected a name, a tab and a count"):
        datasets.load_counts(folder=tmp_path)


def write_gas(folder, rows, metadata=("0\tx\tbanana", "1\tx\twine")):
    (folder / "HT_Sensor_metadata.dat").write_text("\n".join(["head", *metadata]) + "\n")
    (folder / "HT_Sensor_dataset.dat").write_text("\n".join(["head", *rows]) + "\n")


GAS_ROW = " ".join(["0", *map(str, range(1, 12))])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([GAS_ROW, "100000000" + GAS_ROW[1:]], "dat, line 3: the metadata has no id 100000000"),
        ([GAS_ROW, "-1" + GAS_ROW[1:]], "dat, line 3: the metadata has no id -1"),
        ([GAS_ROW, "0.5" + GAS_ROW[1:]], "dat, line 3: the metadata has no id 0.5"),
        (
            [GAS_ROW, "", GAS_ROW + " 12"],
            "dat, line 4: expected 12 columns (id, time, ...)",
        ),
        ([GAS_ROW.replace("7", "nan")], "dat, line 2: every column must be a finite number"),
        ([GAS_ROW.replace("7", "1_0")], "dat, line 2: every column must be a finite number"),
        ([], "the file ends without rows"),
    ],
)
def test_gas_sensors_name_file_and_line(tmp_path, rows, message):
    write_gas(tmp_path, rows)
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.load_gas_sensors(tmp_path)


def test_metadata_of_gas_sensors_name_file_and_line(tmp_path):
    write_gas(tmp_path, [GAS_ROW], ["0\tx\tbanana", "one\tx\twine"])
    with pytest.raises(ValueError, match=r"metadata.dat, line 3: the id must be a whole number"):
        datasets.load_gas_sensors(tmp_path)
    write_gas(tmp_path, [GAS_ROW], ["0"])
    with pytest.raises(ValueError, match=r"metadata.dat, line 2: expected id, date and class"):
        datasets.load_gas_sensors(tmp_path)
    # A large id costs nothing.
    write_gas(tmp_path, ["100000000" + GAS_ROW[1:]], ["100000000\tx\twine"])
    assert list(datasets.load_gas_sensors(tmp_path, scale=False).y) == [-1.0]


def test_libsvm(tmp_path):
    path = tmp_path / "tiny.libsvm"
    path.write_text("+1 1:0.5 3:-2 # a remark\n\n-1\n2.5 2:1e-3\n")
    table = datasets.load_libsvm(path, n_features=4)
    np.testing.assert_array_equal(table.y, [1, -1, 2.5])
    expected = [[0.5, 0, -2, 0], [0, 0, 0, 0], [0, 1e-3, 0, 0]]
    np.testing.assert_array_equal(table.X.toarray(), expected)
    assert datasets.load_libsvm("tiny.libsvm", folder=tmp_path).X.shape == (3, 3)
    path.write_bytes(b"1\t+7:1e-320 8:-.5\r\n-1 # 3:1\r\n\r\n1e2 1:1e3")
    table = datasets.load_libsvm(path)
    assert list(table.y) == [1, -1, 100] and table.X.shape == (3, 8)
    assert list(table.X.tocoo().data) == [1e-320, -0.5, 1e3]
    with pytest.raises(ValueError, match="more than n_features=2"):
        datasets.load_libsvm(path, n_features=2)
    path.write_text("1 1:2\n1 oops\n")
    with pytest.raises(ValueError, match="line 2"):
        datasets.load_libsvm(path)
    path.write_text("1 0:2\n")
    with pytest.raises(ValueError, match="start at 1"):
        datasets.load_libsvm(path)


def test_counts_and_old_faithful(tmp_path):
    (tmp_path / "text8_word_counts.tsv").write_text("the\t3\na b\t0\n\nx\ty\t4\n")
    (tmp_path / "faithful.csv").write_text('"","eruptions","waiting"\n"1",3.6,79\n')
    words, counts = datasets.load_counts(folder=tmp_path)
    assert list(words) == ["the", "a b", "x\ty"] and list(counts) == [3, 0, 4]
    np.testing.assert_array_equal(datasets.load_old_faithful(tmp_path).X, [[3.6, 79]])
