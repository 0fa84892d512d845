"""Where a table says it comes from."""

from experiments import output
from pruner.analyzer.device import Device
from pruner.measure import gpu


def test_a_gpu_is_part_of_the_machine(monkeypatch):
    monkeypatch.setattr(gpu, "fingerprint", lambda: "")
    here = output.origin("compare", ["seed=0"])
    assert here["machine"] == Device.auto().fingerprint
    assert here["command"] == "python -m experiments.compare seed=0"
    monkeypatch.setattr(gpu, "fingerprint", lambda: "Some GPU, sm_80")
    assert output.origin("compare", [])["machine"] == f"{here['machine']}; Some GPU, sm_80"
