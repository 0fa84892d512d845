"""The paper's symbols (figure 3, GEMM-ReLU) on a CPU's tiles, worked out by hand."""

import numpy as np
import pytest

from pruner.analyzer.inspection import inspect
from pruner.analyzer.symbol import SymbolDraft
from pruner.analyzer.symbols import Symbols
from tests.analyzer.analyzer_util import DEVICE
from tests.analyzer.gemm_relu import N, tiled

# i = I0 I1 I2 I3 and so on, in the order I0 J0 I1 J1 K0 I2 J2 K1 I3 J3.
I, J, K = [2, 4, 4, 4], [4, 2, 2, 8], [16, 8]


@pytest.fixture(scope="module")
def found() -> dict[str, Symbols]:
    row = tiled(I, J, K)
    draft = SymbolDraft(device=DEVICE)
    return {s.batch.statement.name: draft.symbols(s) for s in inspect(row.space.nests(row), DEVICE)}


def test_the_product(found: dict[str, Symbols]) -> None:
    c = found["C"]
    # S1 = I3 J3 of C, I3 of A, J3 of B, four bytes each
    assert c.register_bytes.tolist() == [4 * (4 * 8 + 4 + 8)]
    # S2 = I2 I3 J2 J3 K0 K1
    assert c.register_work.tolist() == [(4 * 4) * (2 * 8) * 128]
    # S3 = I2 I3 K1 of A and J2 J3 K1 of B
    assert c.private_bytes.tolist() == [4 * (16 * 8 + 16 * 8)]
    # S4 = I3 J3 in vectors of eight
    assert c.private_units.tolist() == [4]
    # S5 = one step's tiles times I0 J0 I1 J1 K0, and the output tile that lives inside the outer loops
    steps = 2 * 4 * 4 * 2 * 16
    assert [t.tolist() for t in c.traffic] == [[4 * 128 * steps], [4 * 128 * steps], [4 * 16 * 16]]
    # S6 = I0 J0 I1 J1: TVM fuses up to 16 chunks for each of four cores, and ReLU joins below J1
    assert c.cores.tolist() == [64]
    # S7 = K1 of A, J2 J3 of B and C
    assert [r.tolist() for r in c.runs] == [[4 * 8], [4 * 16], [4 * 16]]
    # S8 = 2 N^3
    assert c.operations.tolist() == [2 * N**3]
    # full vectors
    assert c.lane_use.tolist() == [1]


def test_the_relu(found: dict[str, Symbols]) -> None:
    d = found["D"]
    assert d.operations.tolist() == [N * N]
    assert d.cores.tolist() == [64]
    assert d.traffic[1].tolist() == [4 * N * N]


def test_equation_one(found: dict[str, Symbols]) -> None:
    draft = SymbolDraft(device=DEVICE)
    assert all(p.tolist() == [1.0] for p in draft.penalties(found["C"]).values())
    # Only A's loads are short of a transaction: 32 of 64 bytes.
    # The four matrices fit in the third cache.
    bandwidth = DEVICE.levels[-2].bandwidth
    loads = 4 * 128 * 1024
    compute = 2 * N**3 / DEVICE.peak["float32"]
    memory = (2 * loads + loads + 4 * 256) / bandwidth
    assert draft.latency(found["C"])[0] == pytest.approx(compute + memory)


@pytest.mark.parametrize(
    ("tiles", "penalty", "value"),
    [
        # 16 registers of 32 bytes; S1 = 4 (16 * 16 + 16 + 16)
        (([1, 8, 1, 16], [4, 2, 1, 16], [16, 8]), "l0_memory", 512 / (4 * (256 + 32))),
        # four lanes of eight
        (([2, 4, 4, 4], [4, 2, 4, 4], [16, 8]), "l0_compute", 0.5),
        # one vector for two pipes
        (([2, 4, 16, 1], [4, 2, 2, 8], [16, 8]), "l1_compute", 0.5),
        # S3 = 4 * 2 * 128 * 64 bytes, twice the first cache
        (([1, 1, 2, 64], [1, 1, 2, 64], [2, 64]), "l1_memory", 0.5),
        # two chunks for four cores
        (([2, 1, 16, 4], [1, 1, 16, 8], [16, 8]), "l2_compute", 0.5),
    ],
)
def test_penalties_by_hand(tiles: tuple[list[int], ...], penalty: str, value: float) -> None:
    row = tiled(*tiles)
    (c,) = (s for s in inspect(row.space.nests(row), DEVICE) if s.batch.statement.name == "C")
    found = SymbolDraft(device=DEVICE).symbols(c)
    assert SymbolDraft(device=DEVICE).penalties(found)[penalty][0] == pytest.approx(value)
    without = SymbolDraft(device=DEVICE, penalties=f"no_{penalty}")
    assert without.penalties(found)[penalty][0] == 1.0
    # Its removal leaves the others as they are, and can only make the prediction faster.
    for name, other in without.penalties(found).items():
        if name != penalty:
            assert np.array_equal(other, SymbolDraft(device=DEVICE).penalties(found)[name])
    assert (without.latency(found) <= SymbolDraft(device=DEVICE).latency(found)).all()
    assert (without.latency(found) < SymbolDraft(device=DEVICE).latency(found)).all() == (value < 1)
