import json

import numpy as np
import pytest

from pruner.cli import main
from pruner.records.dataset import Dataset
from pruner.records.storage import DTYPES
from tests.records.records_util import made, untranslated


@pytest.fixture
def records(tmp_path):
    """Two machines' records of a task and one's of another."""
    parts = [made(4, device="a"), made(3, device="b", seed=1), made(2, name="DEP/0", device="a")]
    dataset = Dataset.concat(parts)
    dataset.save(tmp_path / "set.parquet")
    return dataset


@pytest.fixture
def database(records, tmp_path):
    """A database of four records whose third line is broken, and whose last is cut."""
    assert (
        main(["records", "convert", str(tmp_path / "set.parquet"), str(tmp_path / "db"), "--device", "a"])
        == 0
    )
    file = tmp_path / "db" / "database_tuning_record.json"
    lines = file.read_text().splitlines()
    broken = json.loads(lines[2])
    broken[1][1] = [0.0]
    file.write_text("\n".join([*lines[:2], json.dumps(broken), *lines[3:], lines[0][:100]]))
    return tmp_path / "db"


def test_inspect_counts_by_task_and_machine(records, tmp_path, capsys):
    assert main(["records", "inspect", "--json", str(tmp_path / "set.parquet")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert (document["seen"], document["skipped"]) == (9, {})
    found = {(line["name"], line["device"]): line for line in document["tasks"]}
    assert set(found) == {("GMM/0", "a"), ("GMM/0", "b"), ("DEP/0", "a")}
    for (name, device), line in found.items():
        mine = records.of(name).on(device)
        best = float(np.nanmin(mine.latency_s))
        assert line["records"] == len(mine)
        assert line["valid"] == line["replayed"] == line["arrays"] == len(mine) - 1
        assert (line["failed"], line["failures"], line["skipped"]) == (1, {"run": 1}, {})
        assert line["best_s"] == best
        if name == "GMM/0":  # 128 x 128 by 128 x 128
            assert line["gflops"] == pytest.approx(2 * 128**3 / best / 1e9)
    assert main(["records", "inspect", str(tmp_path / "set.parquet")]) == 0
    out, _ = capsys.readouterr()
    assert "GMM/0" in out
    assert "9 records, none skipped" in out


def test_inspect_and_validate_name_what_is_skipped(database, capsys):
    capsys.readouterr()
    assert main(["records", "inspect", "--json", str(database)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seen"] == 7
    assert document["skipped"] == {"run time 0": 1, "truncated line": 1}
    assert main(["records", "validate", str(database)]) == 1
    out, _ = capsys.readouterr()
    file = database / "database_tuning_record.json"
    assert f"{file}:3: run time 0\n" in out
    assert f"{file}:7: truncated line\n" in out
    assert out.endswith("7 records, 2 cannot be used\n")


def test_validate_is_content_with_sound_records(records, tmp_path, capsys):
    assert main(["records", "validate", str(tmp_path / "set.parquet")]) == 0
    assert capsys.readouterr().out == "9 records, 0 cannot be used\n"


def test_a_file_without_records_has_no_lines(tmp_path, capsys):
    made(3, device="")[:0].save(tmp_path / "none.npz")
    assert main(["records", "inspect", "--json", str(tmp_path / "none.npz")]) == 0
    assert json.loads(capsys.readouterr().out) == {"tasks": [], "seen": 0, "skipped": {}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inspect", "missing"], "missing is not there"),
        (["validate", "empty"], "empty holds no records"),
        (["convert", "set.parquet", "db"], "these are of a, b"),
        (["convert", "set.parquet", "db", "--device", "c"], "there are a, b"),
        (["convert", "set.parquet", "empty"], "exists already"),
        (["convert", "set.parquet", "other.csv"], "no kind of file"),
        (["inspect", "set.parquet", "--import", "no_such_module"], "no_such_module"),
    ],
)
def test_bad_input_is_one_message(records, tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["records", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pruner: ")
    assert said in err
    assert len(err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "set.parquet"]


def test_usage(capsys):
    for words in (["records"], ["records", "explain", "x"], ["records", "inspect"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
    assert main(["--help"]) == 0
    assert "records" in capsys.readouterr().out


def test_a_speed_that_no_float_holds_is_none(tmp_path, capsys):
    whole = made(3)
    columns = {name: getattr(whole, name).copy() for name in DTYPES}
    columns["latency_s"][0] = 1e-310
    Dataset(whole.tasks, **columns).save(tmp_path / "fast.npz")
    assert main(["records", "inspect", "--json", str(tmp_path / "fast.npz")]) == 0
    (line,) = json.loads(capsys.readouterr().out)["tasks"]
    assert (line["best_s"], line["gflops"]) == (1e-310, None)


def test_what_a_conversion_leaves_out_is_printed_with_its_reason(tmp_path, capsys):
    untranslated(made(4), 2).save(tmp_path / "set.npz")
    assert main(["records", "convert", str(tmp_path / "set.npz"), str(tmp_path / "db")]) == 0
    out, _ = capsys.readouterr()
    assert "1 of GMM/0 left out: " in out
    assert "nowhere" in out
    assert out.endswith(f"3 records written to {tmp_path / 'db'}\n")
