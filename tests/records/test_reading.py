import gzip
import json
import math

import pytest

from pruner.errors import ConfigError
from pruner.records import reading
from pruner.records.reading import NOT_RUN, Report, lines, not_replayed, parse, seconds, within


def test_lines_keep_their_numbers_whether_packed_or_not(tmp_path):
    text = '# a comment\n\n{"a": 1}\n   \n  [2]  \n#[3]\n"\u00fc"'
    (tmp_path / "plain").write_text(text)
    (tmp_path / "packed").write_bytes(gzip.compress(text.encode()))  # told by what it holds, not by its name
    for name in ("plain", "packed"):
        assert list(lines(tmp_path / name)) == [(3, '{"a": 1}'), (5, "[2]"), (7, '"\u00fc"')]


def test_what_cannot_be_read_names_file_and_line(tmp_path, monkeypatch):
    whole = gzip.compress(b"[1]\n" * 50_000)
    for name, data, said in (
        ("cut", whole[: len(whole) // 2], "cannot be unpacked, at line"),
        ("garbled", whole[:30] + b"garbage" + whole[37:], "cannot be (unpacked|read), at line"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ConfigError, match=f"{name} {said} "):
            list(lines(tmp_path / name))
    with pytest.raises(ConfigError, match="missing cannot be read, at line 1"):
        list(lines(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="cannot be read"):
        list(lines(tmp_path))
    (tmp_path / "bytes").write_bytes(b"[1]\n\xff\xfe\n")
    assert [number for number, _ in lines(tmp_path / "bytes")] == [1, 2]
    monkeypatch.setattr(reading, "LINE_BYTES", 100)
    monkeypatch.setattr(reading, "FILE_BYTES", 1000)
    (tmp_path / "long").write_bytes(gzip.compress(b"[1]\n" + b"1" * 10_000_000))
    with pytest.raises(ConfigError, match="long, line 2 is longer"):
        list(lines(tmp_path / "long"))
    (tmp_path / "large").write_bytes(b"[1]\n" * 300)
    with pytest.raises(ConfigError, match=r"larger than .*, at line 251"):
        list(lines(tmp_path / "large"))


def test_a_line_is_what_json_says():
    for value in ([1, {"a": ["[", "{", '"', "\\"]}], {"deep": [[[]]]}, "[[[", 1.5, None):
        assert parse(json.dumps(value)) == value
    assert parse("[1e400, -Infinity]") == [math.inf, -math.inf]
    assert math.isnan(parse("NaN"))
    strings = json.dumps([["[" * 200]] * 40)
    assert parse(strings) == json.loads(strings)
    nested = "[" * 64 + "]" * 64
    assert parse(nested) == json.loads(nested)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"i": [[1, 2], "r', "truncated line"),
        ("[1, 2", "truncated line"),
        ('["' + "]" * 70, "truncated line"),
        # As a pattern that starts over at each quote would not be done with in an hour.
        ('["' + '\\"' * 1_000_000, "truncated line"),
        ('["' + "\\\\" * 1_000_000 + "\\", "truncated line"),
        ("half a line", "no JSON"),
        ("[1] [2]", "no JSON"),
        ("", "no JSON"),
        ("[" * 65 + "]" * 65, "nesting too deep"),
        ("[" * 1_000_000, "nesting too deep"),
        ('{"a":' * 100_000, "nesting too deep"),
        ('["' + "]" * 100 + '", ' + "[" * 80 + "]" * 81, "nesting too deep"),
        (f"[{'1' * 10_000}]", "number too long"),
        ('["\\ud800"]', "half a character"),
    ],
)
def test_a_line_that_is_no_record_has_a_reason(line, reason):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse(line)


def test_run_times_are_their_mean_and_spread():
    times = [1e-3, 2e-3, 6e-3]
    mean, spread = seconds(times)
    assert mean == pytest.approx(sum(times) / 3)
    assert spread == pytest.approx(2.160247e-3)  # the root of (4 + 1 + 9) / 3, ms
    alone, none = seconds([1])
    assert (alone, math.isnan(none)) == (1.0, True)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "no run times"),
        ([1e10], "failure mark"),
        ([1e-3, 10**400], "failure mark"),
        ([1e-3, -(10**400)], "run time negative"),
        ([-math.inf], "run time infinite"),
        ([0.0], "run time 0"),
        ([1e-3, -1e-3], "run time negative"),
        ([math.nan], "run time NaN"),
        ([1e-3, math.inf], "run time infinite"),
        (["1e-3"], "run time no number"),
        ([True], "run time no number"),
        ([None], "run time no number"),
        ([[1e-3]], "run time no number"),
        (1e-3, "run times no list"),
        ({"a": 1e-3}, "run times no list"),
        (None, "run times no list"),
    ],
)
def test_run_times_that_are_none_have_a_reason(values, reason):
    assert seconds(values) == reason
    assert (reason in NOT_RUN) == (reason in ("no run times", "failure mark"))


def test_numbers_are_bounded_whatever_json_allows():
    for value in (0, 1, 0.5, 1e9):
        assert within(value, 0, 1e9)
    for value in (-1, 10**400, -(10**400), math.nan, math.inf, True, None, "1", [1]):
        assert not within(value, 0, 1e9)


def test_reports_add_up_and_name_their_lines():
    first, second = Report(seen=3), Report(seen=2)
    first.skip("a.json", 2, "field count", "3 instead of 2", task="0")
    first.skip("a.json", 3, "truncated line")
    second.skip("b.json", 1, "field count", task="1")
    both = first + second
    assert (both.seen, both.skipped) == (5, {"field count": 2, "truncated line": 1})
    assert both.by_task == {"0": {"field count": 1}, "1": {"field count": 1}}
    assert both.examples["field count"] == [
        "a.json:2: field count (3 instead of 2)",
        "b.json:1: field count",
    ]
    assert first.skipped == {"field count": 1, "truncated line": 1}
    summary = both.summary()
    assert summary.startswith("5 records, 3 skipped")
    assert "2 field count" in summary
    assert "a.json:3: truncated line" in summary
    assert Report(seen=5).summary() == "5 records, none skipped"


def test_examples_are_bounded_and_counts_are_not():
    report = Report()
    for line in range(10_050):
        report.skip("a.json", line, "no JSON")
    assert report.skipped == {"no JSON": 10_050}
    assert len(report.examples["no JSON"]) == len((report + report).examples["no JSON"]) == 10_000


def test_only_a_program_that_ran_counts_as_one_that_does_not_replay():
    assert not_replayed("GetSBlock", ran=True) == "not replayed: GetSBlock"
    assert not not_replayed("GetSBlock", ran=False).startswith("not replayed")
