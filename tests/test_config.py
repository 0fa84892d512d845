import os
import subprocess
import sys

import numpy as np
import pytest
from hydra.utils import get_class
from omegaconf import OmegaConf

from pruner.analyzer.draft import DraftModel
from pruner.config import PRESETS, compose, compose_sweep, groups, instantiate
from pruner.costmodel.random import RandomVerifier
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError, DeviceError
from pruner.features.batch import FeatureBatch
from pruner.measure.clock import Clock
from pruner.settings import parameters

W = "workload=C2D/1"
# What an option needs besides.
NEEDED = {"replay": ["data=records"]}


class Component:
    """Stands for a component of a user's own."""

    def __init__(self, *, size, names=(), device=None):
        self.size = size
        self.names = names
        self.device = device


class Refusing:
    def __init__(self):
        raise DeviceError("no such level")


def test_the_defaults_are_the_documented_ones():
    cfg = compose([W])
    assert (cfg.workload, cfg.batch, cfg.seed, cfg.target, cfg.minutes) == ("C2D/1", 10, 0, None, None)
    assert cfg.device.name == "auto"
    assert cfg.draft == {
        "_target_": "pruner.analyzer.roofline.RooflineDraft",
        "penalties": "all",
        "explored": 8000,
        "size": 512,
        "random": 32,
        "share": 0.25,
    }
    assert cfg.verifier.features == "symbols"
    assert cfg.search["_target_"].endswith("LatentSearch")
    assert cfg.adapt["_target_"].endswith("Scratch")
    assert "hydra" not in cfg
    assert cfg.work_dir.startswith("outputs/")
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)


@pytest.mark.parametrize(
    ("group", "option"),
    [(group, option) for group, options in groups().items() for option in options if group != PRESETS],
)
def test_every_option_composes(group, option):
    overrides = [W, f"{group}={option}", *NEEDED.get(option, ())]
    if option == "custom":
        overrides.append(f"{group}._target_=some.Class")
    chosen = compose(overrides)[group]
    assert ("name" if group == "device" else "_target_") in chosen


@pytest.mark.parametrize(
    ("group", "option"),
    [
        (group, option)
        for group, options in groups().items()
        for option in options
        if group not in ("device", PRESETS) and option not in ("custom", "pacm_paper", "momentum_paper")
    ],
)
def test_every_option_is_a_class_and_repeats_its_defaults(group, option):
    chosen = dict(compose([W, f"{group}={option}", *NEEDED.get(option, ())])[group])
    takes, _ = parameters(get_class(chosen.pop("_target_")))
    defaults = {name: p.default for name, p in takes.items() if p.default is not p.empty}
    assert chosen == {name: defaults[name] for name in chosen}


def test_hydras_run_folder_is_the_work_dir():
    assert compose([W, "hydra.run.dir=there"]).work_dir == "there"
    assert compose([W, "hydra.run.dir=there", "work_dir=here"]).work_dir == "here"


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ('target={"kind": "llvm", "num-cores": 2}', "target", '{"kind": "llvm", "num-cores": 2}'),
        ("target=llvm -num-cores 2", "target", "llvm -num-cores 2"),
        ("work_dir=a (1)/it's", "work_dir", "a (1)/it's"),
        ("work_dir=7", "work_dir", "7"),
        ("workload=my file.py:conv", "workload", "my file.py:conv"),
        ("minutes=0.5", "minutes", 0.5),
        ("seed=3", "data", None),
    ],
)
def test_text_is_taken_as_it_stands(given, key, value):
    assert compose([W, given])[key] == value


@pytest.mark.parametrize(
    ("given", "paths"),
    [("data=a (1)/b[2].npz", "a (1)/b[2].npz"), ("data=7", "7"), ("data=[a,b/c.npz]", ["a", "b/c.npz"])],
)
def test_records_are_a_path_as_it_stands_or_a_list_of_paths(given, paths):
    assert compose([W, "measure=replay", given]).data == paths


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ([], "workload= is required"),
        (["workload="], "workload= is required"),
        ([W, "trials=0"], "trials=0 .* at least 1"),
        ([W, "trials=1.5"], "trials=1.5"),
        ([W, "trials=many"], "trials=many"),
        ([W, "trials=true"], "trials=True"),
        ([W, "batch=0"], "batch=0"),
        ([W, "seed=-1"], "seed=-1"),
        ([W, "minutes=0"], "minutes=0"),
        ([W, "minutes=inf"], "minutes=inf"),
        (
            [W, "verifier=forest"],
            "Unknown verifier 'forest'.*custom, pacm, pacm_paper, random, tenset_mlp, tlp, xgb",
        ),
        ([W, "device=k81"], "Unknown device 'k81'.*auto.*x86-64"),
        ([W, "draft=psi"], "Unknown draft 'psi'.*none, psa, roofline, symbol"),
        ([W, "trails=3"], "Unknown setting 'trails'.*mean trials"),
        ([W, "draft.sise=3"], "draft.sise.*--help"),
        ([W, "forest.size=3"], "forest.size.*Accepted"),
        ([W, "trials"], "Cannot read.*'trials'"),
        ([W, "trials=1,2"], "--multirun"),
        ([W, "verifier=[xgb,random]"], "one verifier"),
        ([W, "verifier=null"], "one verifier"),
        ([W, "~trials"], "cannot be removed"),
        ([W, "~draft"], "draft=NAME"),
        ([W, "+trials=2"], r"without '\+'"),
        ([W, "seed=${nothing}"], "nothing"),
        ([W, "verifier=custom"], "verifier._target_"),
        ([W, "measure=replay"], "needs data=PATH"),
        ([W, "data=records"], "data=records is for measure=replay"),
        ([W, "measure=replay", "data=[]"], "a path, or a list"),
        ([W, "measure=replay", "data=[a,3]"], "a path, or a list"),
        ([W, "measure=replay", "data="], "a path, or a list"),
        ([W, "measure=replay", "data=records", "target=llvm"], "target=llvm cannot be chosen in a replay"),
    ],
)
def test_bad_settings_are_named(overrides, named):
    with pytest.raises(ConfigError, match=named) as error:
        compose(overrides)
    assert "\n" not in str(error.value)


def test_bad_settings_are_refused_without_tvm_and_leave_nothing(tmp_path):
    script = (
        "import sys, pruner.config as c\n"
        "try: c.compose(['workload=C2D/1', 'verifier=forest'])\n"
        "except c.ConfigError: print('tvm' in sys.modules, 'torch' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]
    assert list(tmp_path.iterdir()) == []


def test_a_component_of_ones_own():
    target = f"{__name__}.Component"
    cfg = compose(
        [W, "verifier=custom", f"verifier._target_={target}", "verifier.size=3", "verifier.names=[a]"]
    )
    made = instantiate(cfg.verifier)
    assert type(made).__name__ == "Component"
    assert (made.size, made.names) == (3, ["a"])
    assert type(made.names) is list


def test_an_option_of_ones_own(tmp_path):
    (tmp_path / "verifier").mkdir()
    (tmp_path / "verifier" / "mine.yaml").write_text(f"_target_: {__name__}.Component\nsize: 4\n")
    cfg = compose([W, "verifier=mine", "verifier.size=5"], str(tmp_path))
    assert instantiate(cfg.verifier).size == 5
    with pytest.raises(ConfigError, match="custom, mine, pacm, pacm_paper, random, tenset_mlp, tlp, xgb"):
        compose([W, "verifier=yours"], str(tmp_path))
    with pytest.raises(ConfigError, match="no such folder"):
        compose([W], str(tmp_path / "missing"))


def test_runtime_arguments_arrive_as_they_are():
    clock = Clock()
    assert instantiate({"_target_": f"{__name__}.Component", "size": 1}, device=clock).device is clock


def test_the_shipped_null_draft():
    draft = instantiate(compose([W, "draft=none", "draft.size=7"]).draft, device=None)
    assert isinstance(draft, DraftModel)
    assert draft.size == 7


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("no.such.Class", "no.such.Class"),
        ("pruner.errors.Missing", "Missing"),
        ("pruner", "pruner"),
    ],
)
def test_a_class_that_cannot_be_loaded(target, named):
    with pytest.raises(ConfigError, match=named) as error:
        instantiate({"_target_": target})
    assert "package.module.Class" in str(error.value)


def test_a_setting_the_class_does_not_take():
    with pytest.raises(ConfigError, match=r"colour.*size, names, device"):
        instantiate({"_target_": f"{__name__}.Component", "size": 1, "colour": "red"})
    with pytest.raises(ConfigError, match="size"):
        instantiate({"_target_": f"{__name__}.Component"})


class Outer(RandomVerifier):
    """Passes on what it does not know."""

    def __init__(self, *, size: int = 1, **settings):
        super().__init__(**settings)
        self.size = size


class Open:
    def __init__(self, **settings):
        self.settings = settings


class Sealed(Open):
    def __init__(self):
        super().__init__()


class Faulty:
    def __init__(self):
        raise ValueError("too few")


class Unwritten(Verifier):
    def fit(self, training_set):
        pass


def test_what_a_class_does_not_take_is_left_out_however_it_passes_settings_on():
    outer = instantiate({"_target_": f"{__name__}.Outer", "size": 2}, seed=5, device=None)
    assert outer.size == 2
    features = {"symbols": FeatureBatch(np.zeros((3, 1), np.float32), np.arange(4), "symbols", 1)}
    np.testing.assert_array_equal(outer.predict(features), RandomVerifier(seed=5).predict(features))
    assert instantiate({"_target_": f"{__name__}.Open", "a": 1}, seed=5).settings == {"a": 1, "seed": 5}
    assert instantiate({"_target_": f"{__name__}.Sealed"}, seed=5).settings == {}


def test_a_class_that_is_not_all_written():
    with pytest.raises(ConfigError, match=r"Unwritten lacks load_state_dict, predict, state_dict"):
        instantiate({"_target_": f"{__name__}.Unwritten"})


def test_a_class_whose_name_is_misspelt():
    with pytest.raises(ConfigError, match=r"test_config.py has no Otter. Did you mean Outer\?"):
        instantiate({"_target_": f"{__name__}.Otter"})


def test_a_class_in_place_of_an_option():
    with pytest.raises(ConfigError, match=r"verifier=custom verifier._target_=mine.Linear"):
        compose([W, "verifier=mine.Linear"])


def test_a_file_without_a_class(tmp_path):
    (tmp_path / "verifier").mkdir()
    (tmp_path / "verifier" / "mine.yaml").write_text("size: 4\n")
    with pytest.raises(ConfigError, match=r"the chosen verifier has no class.*_target_"):
        compose([W, "verifier=mine"], str(tmp_path))


def test_the_components_own_error_passes_through():
    with pytest.raises(DeviceError, match="no such level"):
        instantiate({"_target_": f"{__name__}.Refusing"})


def test_any_other_error_of_a_component_names_it_and_the_line():
    with pytest.raises(ConfigError, match=r"Faulty raised ValueError: too few \(test_config.py, line \d+\)"):
        instantiate({"_target_": f"{__name__}.Faulty"})


def test_a_sweep_is_every_combination_in_its_own_folder():
    configs = compose_sweep(["workload=C2D/1,GMM/0", "seed=range(0,2)", "search=latent,random", "batch=5"])
    seen = {(c.workload, c.seed, c.search["_target_"].split(".")[-1]) for c in configs}
    assert len(configs) == len(seen) == 8
    assert len({c.work_dir for c in configs}) == 8
    assert all(c.work_dir.startswith("multirun/") for c in configs)
    with pytest.raises(ConfigError, match="seed=-1"):
        compose_sweep([W, "seed=0,-1"])
    with pytest.raises(ConfigError, match="work_dir=here is given to 2 runs"):
        compose_sweep([W, "seed=0,1", "work_dir=here"])


def test_the_papers_pruner_is_its_formula_and_its_network_alone():
    cfg = compose([W, "experiment=paper"])
    assert cfg.draft["_target_"].endswith("SymbolDraft")
    assert (cfg.draft.explored, cfg.draft.size, cfg.batch) == (8000, 512, 10)  # the paper's settings
    assert cfg.verifier["_target_"].endswith("PaCMVerifier")
    chosen = cfg.verifier
    assert (chosen.prior, chosen.normaliser, chosen.mixed) == (0.0, "maximum", True)
    assert (chosen.epochs, chosen.visits, chosen.anneal) == (50, None, False)
    assert "experiment" not in cfg


def test_a_preset_is_a_start_and_every_part_of_it_can_be_changed():
    assert compose([W, "experiment=paper", "verifier=xgb"]).verifier["_target_"].endswith("XGBVerifier")
    assert compose([W, "experiment=paper", "draft.size=64"]).draft.size == 64


def test_the_papers_adaptation_is_momentum_from_a_checkpoint_at_every_round():
    paper, cfg = compose([W, "experiment=paper"]), compose([W, "experiment=moa"])
    assert (cfg.draft, cfg.verifier, cfg.batch) == (paper.draft, paper.verifier, paper.batch)
    assert cfg.adapt["_target_"].endswith("Momentum")
    chosen = cfg.adapt
    assert (chosen.momentum, chosen.every, chosen.buffers) == (0.99, 1, False)
    assert chosen.checkpoint == "pacm_paper-x86-64"
    assert compose([W, "experiment=moa", "adapt.checkpoint=a/b.safetensors"]).adapt.checkpoint == (
        "a/b.safetensors"
    )
    assert compose([W, "experiment=moa", "adapt=frozen", "adapt.checkpoint=x"]).adapt.checkpoint == "x"
    assert list(compose([W, "experiment=moa", "adapt=scratch"]).adapt) == ["_target_"]


def test_no_rule_trains_longer_than_another():
    finetune, momentum = (compose([W, f"adapt={name}"]).adapt for name in ("finetune", "momentum"))
    assert (finetune.epochs, finetune.every) == (momentum.epochs, momentum.every)
