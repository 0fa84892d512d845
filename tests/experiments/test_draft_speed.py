"""Draft speed and validity: the figures are what their text says, and a wrong legality rule shows."""

import json

import numpy as np
import pytest

from experiments import validity
from experiments.draft_speed import STUDY, cases, drafts, main
from experiments.draft_speed_report import missed
from experiments.settings import settings
from experiments.stock_sampling import sample_valid
from experiments.validity import refused_rows, some
from pruner.errors import RejectedError
from pruner.search.space import Space

TINY = ["target=llvm", "explored=200", "size=64", "drafts=2", "checked=20", "stock_valid=5"]
KEYS = {
    "workload",
    "target",
    "draft_s",
    "valid_share",
    "reject_agreement",
    "seconds_per_valid",
    "stock_seconds_per_valid",
    "ratio",
    "ratio_drafted",
}


def run(folder, *words):
    assert main([*TINY, *words, f"work_dir={folder}"]) == 0
    return json.loads((folder / "draft_speed.json").read_text())["results"]


def share_by_hand(rows):
    """The share of the rows that TVM makes programs of, asked one by one."""
    made = 0
    for candidate in rows:
        try:
            candidate.materialise()
        except RejectedError:
            continue
        made += 1
    return made / len(rows)


def test_figures_follow_from_each_other(tmp_path, capsys):
    (row,) = run(tmp_path, "workload=GMM/0")
    assert set(row) >= KEYS
    assert row["kept"] == 64
    assert row["scored"] == 200
    assert row["checked"] == 20
    assert row["stock_valid"] >= 5
    # Each kept row is valid, and replaying is not free.
    assert row["valid_share"] == 1.0
    assert row["reject_agreement"] is None
    assert row["seconds_per_valid"] > row["draft_s"] / 64
    assert row["ratio"] == pytest.approx(row["stock_seconds_per_valid"] / row["seconds_per_valid"])
    assert row["ratio_drafted"] == pytest.approx(row["stock_seconds_per_valid"] * 64 / row["draft_s"])
    assert row["scored_seconds_per_valid"] == pytest.approx(row["draft_s"] / 200)
    for kind in ("csv", "md", "png"):
        assert (tmp_path / f"draft_speed.{kind}").stat().st_size > 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path)


def test_shares_are_those_of_asking_by_hand(tmp_path, monkeypatch):
    """Where the legality rule is missing, part of what is drafted is refused; by hand it is the same part."""
    monkeypatch.setattr(Space, "reasons", lambda space, rows: {})
    monkeypatch.setattr(Space, "legal", lambda space, rows: np.ones(len(rows), dtype=bool))
    monkeypatch.setattr(Space, "sample_legal", Space.sample)
    (row,) = run(tmp_path, "workload=T2D/0")
    cfg = settings(STUDY, [*TINY, "workload=T2D/0"])
    (case,) = cases(cfg)
    again = drafts(Space.of(case.task), case.draft, cfg.drafts, cfg.seed)
    expected = share_by_hand(some(again.kept, cfg.checked, np.random.default_rng(cfg.seed)))
    assert row["valid_share"] == expected < 1.0
    assert "valid_share" in missed(row)
    # What TVM refuses makes the others dearer.
    assert row["drafted_seconds_per_valid"] == pytest.approx(row["draft_s"] / (64 * expected))


def test_rule_that_refuses_too_much_is_caught(tmp_path, monkeypatch):
    """Half of the rows are refused for a made-up reason that TVM does not know."""
    monkeypatch.setattr(Space, "reasons", lambda space, rows: {"made_up": rows.hashes() % 2 == 0})
    (row,) = run(tmp_path, "workload=GMM/0")
    assert row["valid_share"] == 1.0
    assert row["rejects"] == {"made_up": {"checked": 20, "confirmed": 0}}
    assert row["reject_agreement"] == 0.0
    assert "reject_agreement" in missed(row)


def test_right_rule_is_confirmed(tmp_path):
    (row,) = run(tmp_path, "workload=T2D/0")
    assert row["rejects"] == {"dynamic_loop": {"checked": 20, "confirmed": 20}}
    assert row["reject_agreement"] == 1.0
    assert row["valid_share"] == 1.0
    assert 0.0 < row["legal_share"] < 1.0


def test_cuda_rules_are_confirmed_one_by_one(tmp_path):
    (row,) = run(tmp_path, "workload=GMM/0", "target=cuda", "checked=21")
    assert row["scored"] == 200
    assert row["valid_share"] == row["reject_agreement"] == 1.0
    expected = {reason: {"checked": 7, "confirmed": 7} for reason in ("threads", "pipeline", "shared_memory")}
    assert row["rejects"] == expected
    # TVM tries about nine times for a candidate of matmul that it accepts.
    assert row["stock_valid"] < 0.5 * row["stock_tries"]
    assert 0.05 < row["legal_share"] < 0.25


def test_rejects_are_spread_over_reasons(monkeypatch):
    """A rare reason gives what it has, and rows with one reason go before rows with two."""
    (case,) = cases(settings(STUDY, [*TINY, "workload=GMM/0"]))
    space = Space.of(case.task)
    monkeypatch.setattr(validity, "POOL", 1000)

    def reasons(rows):
        number = np.arange(len(rows))
        return {"common": number % 2 == 0, "rare": number < 5, "never": number < 0}

    monkeypatch.setattr(space, "reasons", reasons)
    rows = space.unique(space.sample(1000, np.random.default_rng(3)))
    legal, refused = refused_rows(space, 20, np.random.default_rng(3))
    at = {row: i for i, row in enumerate(rows.hashes().tolist())}
    found = {reason: [at[row] for row in chosen.hashes().tolist()] for reason, chosen in refused.items()}
    assert set(found) == {"common", "rare"}
    # Rows 1 and 3 have the rare reason only; 0, 2 and 4 have both and are left to whose turn it is.
    assert found["rare"][:2] == [1, 3]
    assert len(found["common"]) + len(found["rare"]) == 20
    assert not set(found["common"]) & set(found["rare"])
    assert all(row % 2 == 0 for row in found["common"])
    assert legal == pytest.approx(1 - (len(rows[::2]) + 2) / len(rows))


def test_goals():
    good = {
        "workload": "C2D/0",
        "target": "cuda",
        "draft_s": 0.3,
        "first_draft_s": 0.3,
        "valid_share": 0.99,
        "reject_agreement": 0.99,
        "ratio_drafted": 1000.0,
    }
    assert missed(good) == []
    assert missed({**good, "draft_s": 0.31}) == ["draft_s"]
    assert missed({**good, "valid_share": 0.98}) == ["valid_share"]
    assert missed({**good, "reject_agreement": 0.98}) == ["reject_agreement"]
    assert missed({**good, "reject_agreement": None}) == []
    assert missed({**good, "ratio_drafted": 999.0}) == ["ratio_drafted"]
    assert missed({**good, "ratio_drafted": None}) == ["ratio_drafted"]
    assert missed({**good, "ratio_drafted": 1.0, "target": "llvm"}) == []
    assert missed({**good, "ratio_drafted": 1.0, "workload": "GMM/0"}) == []


def test_stock_sampling_ends_at_its_number_or_its_time():
    (case,) = cases(settings(STUDY, [*TINY, "workload=T2D/0"]))
    rng = np.random.default_rng(0)
    enough = sample_valid(case.task, valid=70, seconds=600, threads=2, rng=rng)
    assert 70 <= enough.valid < enough.tries
    cut = sample_valid(case.task, valid=10**6, seconds=1e-9, threads=2, rng=rng)
    assert cut.tries <= 64


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["target=metal"], "target=metal is not accepted: give llvm or cuda"),
        (["target=cuda", "cuda=x86-64"], "programs are for llvm"),
        (["workload=[]"], "workload=[] is empty"),
        (["target=[]"], "target=[] is empty"),
        (["checked=0"], "checked=0 is not accepted"),
        (["stock_seconds=0"], "stock_seconds=0"),
        (["workload=ABC/0"], 'workload "ABC/0" is unknown'),
        (["draft=best"], "Unknown draft 'best'"),
    ],
)
def test_bad_settings_are_refused(words, message, tmp_path, capsys):
    assert main([*TINY, "workload=GMM/0", *words, f"work_dir={tmp_path}"]) == 2
    assert message in capsys.readouterr().err
