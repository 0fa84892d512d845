"""Pre-trained checkpoints from records that nobody measured, and what studies do with them."""

import json

import numpy as np
import pytest
import yaml
from omegaconf import OmegaConf
from tvm.target import Target

from experiments import cost_model, settings
from experiments.definitions import definitions
from experiments.entries import Entry
from experiments.pretrain import main
from experiments.pretrained import Pretrained
from pruner.costmodel.checkpoint import load_checkpoint, save_checkpoint
from pruner.costmodel.pretrained import load_verifier
from pruner.costmodel.resume import Resume
from pruner.costmodel.shipped import shipped
from pruner.errors import ConfigError
from pruner.records.dataset import Dataset, RecordedTask
from pruner.workload import load_task
from tests.experiments.made_up import CUDA, records
from tests.experiments.test_cost_model import seconds, task
from tests.experiments.test_kin import conv
from tests.experiments.verifiers import Constant

HERE = "tests.experiments.verifiers"
TREES = "xgb verifier.prior=0.0 verifier.trees=20"
NETWORK = "pacm verifier.dataflow=false verifier.epochs=4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records of four tasks, of which the first two are kin, and a cache of their features."""
    found = tmp_path_factory.mktemp("records")
    tasks = [
        task(conv(), "conv"),
        task(conv(relu=True), "conv_relu"),
        load_task("GMM/0", CUDA),
        task(conv(channels=24), "wide"),
    ]
    made_up = [records(one, 24, seed, latency=seconds)[0] for seed, one in enumerate(tasks)]
    Dataset.concat(made_up).save(found / "a.npz")
    return found


@pytest.fixture
def run(folder, tmp_path):
    """Makes one checkpoint, NAME, of these records; returns its path, or the exit code when that is to be
    another than 0."""

    def make(verifier=TREES, *words, code=0, name="mine", where="out", **given):
        fields = {"data": str(folder / "a.npz"), "device": "a100-40g", "verifier": verifier, **given}
        fields = {key: value for key, value in fields.items() if value is not None}
        (tmp_path / "own.yaml").write_text(yaml.safe_dump({name: fields}))
        words = (f"definitions={tmp_path / 'own.yaml'}", f"folder={tmp_path / where}", *words)
        words += (f"cache={folder / 'cache'}", f"work_dir={tmp_path / 'run'}")
        assert main(list(words)) == code
        return tmp_path / where / f"{name}.safetensors"

    return make


def named(made, key):
    return [one["name"] for one in made[key]]


def test_the_header_tells_what_it_was_made_from(run, folder):
    path = run(leave_out=["conv"])
    state, made = load_checkpoint(path)
    assert (state["model"], made["name"], made["device"]) == ("xgb", "mine", "a100-40g")
    assert made["data"] == ["a.npz"]
    assert made["machines"] == ["a100"]
    # The kin of what is left out is not trained on either, and not scored.
    assert named(made, "tasks") == ["GMM/0", "wide"]
    assert named(made, "left_out") == ["conv"]
    # Of 22 distinct programs of a task five failed; of those that ran a tenth is held out.
    assert [one["programs"] for one in made["tasks"]] == [16, 16]
    assert (made["records"], made["programs"]) == (48, 32)
    assert (made["verifier"]["prior"], made["verifier"]["trees"], made["verifier"]["depth"]) == (0.0, 20, 4)
    assert {"pruner", "tvm", "xgboost"} <= set(made["versions"])
    assert made["command"] == (
        "python -m experiments.pretrain checkpoints=mine definitions=own.yaml seed=0 fit_seconds=3600"
    )
    assert made["metrics"]["held_out"]["programs"] == 2
    assert made["metrics"]["left_out"]["programs"] == 17
    # Nothing of this machine.
    assert str(folder.parent).encode() not in path.read_bytes()


def test_figures_are_those_of_what_was_not_trained_on(run, tmp_path):
    figures = ("top1", "top5", "pairwise", "rank_correlation")
    for verifier, expected in ((f"{HERE}.Oracle", [1, 1, 1, 1]), (f"{HERE}.Constant", [None, None, 0.5, 0])):
        Constant.fits.clear()
        made = load_checkpoint(run(verifier, leave_out=["GMM/0"], where=verifier))[1]
        found = made["metrics"]["left_out"]  # of each other task one program is held out, too few to rank
        chance = [found["random_top1"], found["random_top5"]]
        for name, value, random in zip(figures, expected, [*chance, 0, 0], strict=True):
            assert found[name] == pytest.approx(random if value is None else value)
        assert found["random_top1"] < 1
    [training] = Constant.fits
    assert np.bincount(training.group).tolist() == [16, 16, 0, 16]
    assert (training.labels > 0).all()
    table = json.loads((tmp_path / "run" / "pretrain.json").read_text())["checkpoints"]
    assert table[0]["left_out_pairwise"] == 0.5
    assert "| mine | 3 | 48 | left out |" in (tmp_path / "run" / "pretrain.md").read_text()


@pytest.mark.slow
def test_a_checkpoint_is_kept_until_what_it_was_made_from_changes(run, capsys):
    def mtime(*words, **given):
        found = run(*words, **given).stat().st_mtime_ns
        return found, "mine  kept\n" in capsys.readouterr().out

    first, kept = mtime()
    assert not kept
    assert mtime() == (first, True)
    seen = {first}
    for words, given in (
        ((TREES, "seed=1"), {}),
        ((f"{TREES} verifier.depth=3",), {}),
        ((), {"leave_out": ["wide"]}),
        ((), {"tasks": ["conv", "wide"]}),
    ):
        made, kept = mtime(*words, **given)
        assert not kept
        assert made not in seen
        seen.add(made)
    path = run()
    path.write_bytes(path.read_bytes()[:-50])  # a file that is damaged is made again
    assert load_verifier(run())[0].fitted


def test_a_training_that_was_cut_off_goes_on(run, tmp_path, monkeypatch):
    whole = load_checkpoint(run(NETWORK, where="whole"))
    epochs = []
    save = Resume.save

    def cut(self, network, optimiser, rng, place):
        if len(epochs) == 1:
            place = (*place[:-1], place[-1] + 1000.0)  # it took long
        save(self, network, optimiser, rng, place)
        epochs.append(place[0])
        if len(epochs) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Resume, "save", cut)
    path = run(NETWORK, code=130)
    assert [one.name for one in path.parent.iterdir()] == [".mine.training"]
    assert run(NETWORK) == path
    assert epochs == [1, 2, 3, 4]
    assert [one.name for one in path.parent.iterdir()] == ["mine.safetensors"]
    state, made = load_checkpoint(path)
    for name, array in whole[0]["weights"].items():
        assert (state["weights"][name] == array).all(), name
    assert whole[1]["fit_s"] < 1000 < made["fit_s"]
    assert made["metrics"] == whole[1]["metrics"]
    assert made["key"] == whole[1]["key"]
    assert "torch" in made["versions"]


@pytest.mark.parametrize("half", [False, True])
def test_a_study_scores_a_checkpoint_as_it_was_measured(half, run, folder):
    path = run(NETWORK, half=half, tasks=["GMM/0", "conv"], leave_out=["conv"])
    state, made = load_checkpoint(path)
    assert {array.dtype.name for array in state["weights"].values()} == {
        "float16" if half else "float32",
        "int64",
    }
    # Each of the two is scored whole.
    rows = scored(folder, path, "conv,wide", "split=task")
    assert [row["task"] for row in rows] == ["conv", "wide"]
    for name in ("top1", "top5", "pairwise", "rank_correlation"):
        assert rows[0][name] == made["metrics"]["left_out"][name]
    assert rows[0]["random1"] == made["metrics"]["left_out"]["random_top1"]


def scored(folder, path, tasks, *words, code=0):
    """What cost_model finds of a checkpoint on these tasks: its rows."""
    given = [f"data={folder / 'a.npz'}", "device=a100-40g", f"cache={folder / 'cache'}", f"tasks=[{tasks}]"]
    given += ["verifiers=[random]", f"checkpoints=[{path}]", "seed=0", f"work_dir={path.parent / 'study'}"]
    assert cost_model.main([*given, *words]) == code
    if code:
        return None
    found = json.loads((path.parent / "study" / "cost_model.json").read_text())
    label = f"checkpoint {path}"
    assert set(found["summary"]) == {"random", label}
    assert {(unit["trained"], unit["fit_s"]) for unit in found["units"]} == {(0, 0.0)}
    return [row for row in found["results"] if row["verifier"] == label]


@pytest.mark.parametrize(
    ("trained", "tasks", "message"),
    [
        (["conv"], "conv,GMM/0", "trained on 1 of the tasks to be scored: conv (its conv). Choose others"),
        (["conv"], "GMM/0,conv_relu", "conv_relu (its conv, from which it differs in the epilogue)"),
        (None, "GMM/0,wide", "trained on 2 of the tasks to be scored: GMM/0 (its GMM/0), wide (its wide)"),
    ],
)
def test_a_study_does_not_score_what_a_checkpoint_was_trained_on(
    trained, tasks, message, run, folder, capsys
):
    path = run(tasks=trained)
    scored(folder, path, tasks, code=2)
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_a_task_is_recognised_by_what_it_computes_and_for_what(run):
    checkpoint = Pretrained.of(str(run(tasks=["conv", "GMM/0"])))
    other = Target({"kind": "cuda", "arch": "sm_86", "max_threads_per_block": 1024, "thread_warp_size": 32})

    def unseen(mod, target=CUDA):
        checkpoint.check_unseen([RecordedTask("another name", mod, target)])

    for mod in (conv(), conv(name="x"), conv(bias=True), load_task("GMM/0", CUDA).mod):
        with pytest.raises(ConfigError, match="another name \\(its "):
            unseen(mod)
        unseen(mod, other)
    for mod in (conv(channels=32), conv(stride=2), load_task("GMM/1", CUDA).mod):
        unseen(mod)
    checkpoint.check_unseen([])


def test_a_checkpoint_that_does_not_tell_cannot_be_judged(run, tmp_path):
    state, made = load_checkpoint(run())
    path = tmp_path / "b.safetensors"
    for change, message in (
        ({"tasks": None}, "does not tell which tasks it was trained on"),
        ({"tasks": ["conv"]}, "does not tell which tasks it was trained on"),
        ({"tasks": []}, "does not tell which tasks it was trained on"),
        ({"versions": {}}, "does not tell which tasks it was trained on"),
        ({"versions": {"tvm": "0.28.0"}}, r"as TVM 0.28 knows them; this is TVM 0.27. Make it again"),
    ):
        save_checkpoint(path, state, made | change)
        with pytest.raises(ConfigError, match=message):
            Pretrained.of(str(path)).check_unseen([])
    save_checkpoint(path, state | {"trees": np.zeros(0, np.uint8)}, made)
    with pytest.raises(ConfigError, match="holds a model that was never fitted"):
        Pretrained.of(str(path))


def test_what_ships_is_defined():
    given = OmegaConf.to_container(settings.settings("pretrain", []).shipped)
    found = {one.name: one for one in definitions(given, [])}
    assert sorted(found) == shipped()
    for name, one in found.items():
        assert Entry.of(one.verifier, 1).features
        assert one.leave_out == (("3", "7", "10") if "-f1" in name else ())
        assert one.recorded == ("x86-64" if "x86" in name else None)
        assert one.origins == list(one.data)


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        (["checkpoints=[min]"], {}, "nothing is defined under this name. Did you mean mine? There are mine"),
        (["folder=null"], {}, "definitions= needs a folder= of its own"),
        (["seed=-1"], {}, "seed=-1 is not accepted"),
        (["fit_seconds=0.0"], {}, "fit_seconds=0.0 is not accepted"),
        (["shipped=3"], {}, "Unknown setting 'shipped'"),
        ([], {"leave": ["conv"]}, "defined with leave; accepted are data, device, verifier"),
        ([], {"device": None}, "defined without device"),
        ([], {"tasks": ["conv", "conv"]}, "defined with conv twice in tasks. Give it once"),
        ([], {"data": "$NOT_THERE_AT_ALL/a"}, "made from $NOT_THERE_AT_ALL/a: the environment variable says"),
        ([], {"device": "x86-64"}, "device x86-64 is a cpu"),
        ([], {"recorded": "h100"}, "recorded=h100 is in no device's name"),
        ([], {"tasks": ["abc"]}, "there is no such task; there are conv"),
        ([], {"leave_out": ["abc"]}, "leave_out=abc: there is no such task; there are conv"),
        ([], {"leave_out": ["conv", "GMM/0", "wide"]}, "leaves no task to train on"),
        ([], {"half": True}, "its verifier has no weights"),
        ([], {"verifier": "nobody"}, "there is no verifier nobody"),
        ([], {"verifier": f"{HERE}.NaN"}, "mine: verifier NaN: predict gave NaN"),
        (
            [],
            {"verifier": f"{HERE}.Raises verifier.where=fit"},
            "Raises verifier.where=fit: fit raised Value",
        ),
        (
            [],
            {"verifier": f"{HERE}.Raises verifier.where=predict"},
            "mine: predict raised ValueError: cannot",
        ),
    ],
)
def test_bad_input_is_one_message(words, given, message, run, capsys):
    run(given.pop("verifier", TREES), *words, code=2, **given)
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "content", ["", "3", "mine: 3", "mine: [", "mine: {data: a, device: b}", "mine: \xff"]
)
def test_a_file_that_defines_nothing(content, tmp_path, capsys):
    (tmp_path / "own.yaml").write_text(content, encoding="latin-1")
    assert main([f"definitions={tmp_path / 'own.yaml'}", f"work_dir={tmp_path / 'run'}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
