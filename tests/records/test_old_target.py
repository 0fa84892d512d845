"""Recorded targets of older versions: what today's TVM does not know goes, what no target is has an error."""

import json
from typing import Any

import pytest
from tvm.target import Target

from pruner.records.old_target import todays_target

RETIRED = {"link-params": 0, "system-lib": 1, "runtime": "c++", "an-option-of-1999": 1}


@pytest.mark.parametrize("form", ["dict", "JSON", "options"])
def test_options_that_are_gone_are_left_out_of_every_form(form: str) -> None:
    known = {"kind": "cuda", "keys": ["cuda", "gpu"], "arch": "sm_75", "thread_warp_size": 32}
    recorded: Any = {**known, **RETIRED}
    if form == "JSON":
        recorded = json.dumps(recorded)
    elif form == "options":
        retired = " ".join(f"-{name}={value}" for name, value in RETIRED.items())
        recorded = f"cuda -keys=cuda,gpu -arch=sm_75 -thread_warp_size=32 {retired}"
    assert str(todays_target(recorded)) == str(Target(known))


def test_a_hosts_options_are_left_out_too() -> None:
    for host in ({"kind": "llvm", "mcpu": "skylake", "link-params": 0}, "llvm -mcpu=skylake -link-params=0"):
        target = todays_target({"kind": "cuda", "arch": "sm_75", "host": host})
        assert target.host.attrs["mcpu"] == "skylake"


def test_a_record_gives_llvm_no_command_line() -> None:
    recorded = {"kind": "llvm", "num-cores": 2, "cl-opt": ["-info-output-file=x:string"]}
    assert str(todays_target(recorded)) == str(Target({"kind": "llvm", "num-cores": 2}))


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (None, "NoneType"),
        ({"kind": "abacus"}, "abacus"),
        ("abacus -beads=10", "abacus"),
        ("llvm " + "'" * 5001, "5,006 characters"),
        ({"kind": "llvm", "mcpu": "x" * 5000}, "characters"),
        ('{"a":' + "[" * 4000, "nesting too deep"),
        ({"kind": "cuda", "host": '{"a":' + "[" * 3000}, "nesting too deep"),
        ('llvm -mcpu="x', "No closing quotation"),
        ('{"kind": "llvm", "num-cores": ' + "9" * 400 + "}", ""),
    ],
)
def test_what_describes_no_target_is_a_named_error(recorded: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^target: .*{said}"):
        todays_target(recorded)
