"""Every option that ships, and every arm of a study: two rounds on a recorded task."""

import json
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from experiments.arm import Arm
from experiments.bases import Base
from experiments.settings import CONF, settings
from pruner.cli import main
from pruner.config import groups
from pruner.errors import ConfigError

EXCERPT = Path(__file__).parent / "data" / "metaschedule"
GPU = [f"data={EXCERPT}", "workload=0", "device=a100-40g"]
CPU = ["data=data/cpu", "measure.recorded=x86-64", "workload=GMM/1@x86-64", "device=x86-64"]
ROUNDS = ["tune", "measure=replay", "trials=6", "batch=3"]
# What an option needs beside its name: rules that start from a checkpoint are given one that suits.
TRAINED = ["verifier=pacm", "adapt.checkpoint=pacm-a100-f1"]
BESIDE = {
    "adapt=finetune": TRAINED,
    "adapt=momentum": TRAINED,
    "adapt=momentum_paper": TRAINED,
    "adapt=gap": TRAINED,
    "experiment=moa": ["adapt.checkpoint=pacm_paper-a100-f1"],
}
# Groups of which a recorded task has the choice; the others' options say what they are for.
RUN = ("draft", "verifier", "search", "adapt", "experiment")
OPTIONS = [f"{group}={option}" for group in RUN for option in groups()[group] if option != "custom"]
ARMS = {path.stem: OmegaConf.load(path) for path in sorted((CONF / "arm").glob("*.yaml"))}
FROM_BASE = [name for name, arm in ARMS.items() if "changes" in arm]
# These make candidates of their own, which nobody has recorded.
OWN_CANDIDATES = ("search=metaschedule", "metaschedule_10", "metaschedule_64")


def run(words, folder):
    code = main([*ROUNDS, *words, f"work_dir={folder}"])
    if code == 0:
        summary = json.loads((folder / "summary.json").read_text())
        assert (summary["trials"], summary["replayed"]) == (6, True)
    return code


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_runs(option, tmp_path, capsys):
    code = run([*GPU, option, *BESIDE.get(option, [])], tmp_path / "run")
    said = capsys.readouterr().err
    if option in OWN_CANDIDATES:
        assert code == 2
        assert "only recorded programs can be measured" in said
    else:
        assert (code, said) == (0, "")


@pytest.mark.parametrize("device", groups()["device"])
def test_a_device_replays_what_was_recorded_for_it_or_says_what_was(device, tmp_path, capsys):
    code = run([*GPU[:2], f"device={device}"], tmp_path / "run")
    if device in ("a100-40g", "a100-80g", "auto"):  # auto stands for what the records are from
        assert code == 0
    else:
        assert code == 2
        assert re.search(r"recorded for (sm_80|a target of kind cuda)", capsys.readouterr().err)


@pytest.mark.parametrize("name", [name for name, arm in ARMS.items() if "overrides" in arm])
def test_every_arm_of_its_own_runs(name, tmp_path):
    code = run([*CPU, *Arm.load(name).overrides], tmp_path / "run")
    assert code == (2 if name in OWN_CANDIDATES else 0)


def run_arm(base, source, name, folder):
    assert run([*GPU, *Base.load(base, source).arm(name).overrides], folder) == 0


@pytest.mark.parametrize("name", FROM_BASE)
def test_every_arm_of_our_base_runs(name, tmp_path):
    run_arm("pruner", "a100-f1", name, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("name", FROM_BASE)
def test_every_arm_of_the_papers_base_runs(name, tmp_path):
    run_arm("moa", "a100-f1", name, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("name", FROM_BASE)
def test_every_arm_of_the_released_weights_runs_or_has_none(name, tmp_path):
    weights = tmp_path / "released.pth"
    make_weights(weights)
    if name in ("no_dataflow", "no_statement", "offline_tenset_mlp", "offline_tlp"):
        with pytest.raises(ConfigError, match="no checkpoint"):  # of another network
            Base.load("released", str(weights)).arm(name)
    else:
        run_arm("released", str(weights), name, tmp_path / "run")


def make_weights(path):
    """A file in the form of the released weights."""
    import torch

    from pruner.costmodel.networks import PaCM
    from pruner.costmodel.released import _LAYERS, WIDTHS

    ours = {theirs: own for own, theirs in _LAYERS.items()}
    state = PaCM(WIDTHS).state_dict()
    named = {}
    for name, tensor in state.items():
        layer = next(one for one in sorted(ours, key=len, reverse=True) if name.startswith(f"{one}."))
        named[ours[layer] + name[len(layer) :]] = tensor
    torch.save(named, path)


@pytest.mark.parametrize(
    "study", sorted(path.stem for path in CONF.glob("*.yaml") if "_settings" not in path.stem)
)
def test_every_study_composes(study):
    assert settings(study, []).work_dir
