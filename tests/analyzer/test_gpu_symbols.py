"""The paper's symbols on its own example (figure 3, GEMM-ReLU), worked out by hand."""

import dataclasses

import numpy as np
import pytest

from pruner.analyzer.symbol import SymbolDraft
from pruner.analyzer.symbols import Symbols
from tests.analyzer.gpu_util import DEVICE, statements, tiled

N = 128
# I0 .. I4 in the paper's order are blocks, threads, virtual threads and the two tiles of a thread; here
# virtual threads come before threads.
I, J, K = [4, 2, 8, 2, 1], [2, 2, 16, 1, 2], [8, 4, 4]


@pytest.fixture(scope="module")
def found() -> dict[str, Symbols]:
    draft = SymbolDraft(device=DEVICE)
    return {name: draft.symbols(s) for name, s in statements(tiled(I, J, K)).items()}


def test_the_product(found: dict[str, Symbols]) -> None:
    c = found["C"]
    # S1 = (I2 I3 I4) (J2 J3 J4) + I2 I3 I4 + J2 J3 J4
    assert c.register_bytes.tolist() == [4 * (4 * 4 + 4 + 4)]
    # S2 = I2 I3 I4 J2 J3 J4 K0 K1 K2
    assert c.register_work.tolist() == [4 * 4 * 128]
    # S4 = I1 J1, S6 = I0 J0
    assert c.private_units.tolist() == [8 * 16]
    assert c.cores.tolist() == [4 * 2]
    # S8 = 2 N^3
    assert c.operations.tolist() == [2 * N**3]
    # Everything it reads is in shared memory.
    assert c.traffic == ()


def test_the_loads(found: dict[str, Symbols]) -> None:
    a, b = found["A_shared"], found["B_shared"]
    # S3 = (I1 .. I4) K1 K2 + (J1 .. J4) K1 K2, of the kernel
    assert a.private_bytes.tolist() == b.private_bytes.tolist() == [4 * (32 * 16 + 64 * 16)]
    # S5 = (I0 .. I4) J0 (K0 K1 K2), and I0 (J0 .. J4) (K0 K1 K2)
    assert [t.tolist() for t in a.traffic] == [[4 * N * 2 * N]]
    assert [t.tolist() for t in b.traffic] == [[4 * 4 * N * N]]
    # S7 = K1 K2 of A, J1 .. J4 of B
    assert [r.tolist() for r in a.runs] == [[4 * 16]]
    assert [r.tolist() for r in b.runs] == [[4 * 64]]
    assert a.operations.tolist() == [0]


def test_the_relu_writes_back(found: dict[str, Symbols]) -> None:
    d = found["C_local"]
    assert d.operations.tolist() == [N * N]
    assert [t.tolist() for t in d.traffic] == [[4 * N * N]]
    assert [r.tolist() for r in d.runs] == [[4 * 64]]


def test_equation_one(found: dict[str, Symbols]) -> None:
    # A thread touches I2 I3 I4 K of A, J2 J3 J4 K of B and its tile of C; (r + 1) / r of the time at L0.
    reuse = 1 + 2 * 2048 / (4 * 128 + 4 * 128 + 16)
    peak = 108 * 64 * 2 * 1.41e9 * reuse / (reuse + 1) * 8 / 108
    # ReLU: one operation for an element read and one written.
    relu = 108 * 64 * 2 * 1.41e9 * 1.5 / 2.5 * 8 / 108
    compute = 2 * N**3 / peak + N * N / relu
    memory = 4 * (2 * N * N + 4 * N * N + N * N) / 1.555e12
    expected = compute + memory
    assert SymbolDraft(device=DEVICE).score(tiled(I, J, K))[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("tiles", "cores", "penalty", "value"),
    [
        # the published example: six blocks on four units
        (([3, 2, 8, 2, 1], [2, 1, 16, 3, 1], [6, 4, 4]), 4, "l2_compute", 0.75),
        # 48 threads in two warps
        (([4, 2, 6, 2, 1], [2, 1, 8, 3, 2], [6, 4, 4]), 4, "l1_compute", 0.75),
        # 255 registers of 4 bytes; S1 = 4 (16 * 16 + 16 + 16)
        (([2, 1, 4, 4, 4], [1, 1, 8, 4, 4], [8, 4, 4]), 4, "l0_memory", 255 / 288),
    ],
)
def test_penalties_by_hand(tiles: tuple[list[int], ...], cores: int, penalty: str, value: float) -> None:
    device = dataclasses.replace(DEVICE, cores=cores)
    s = statements(tiled(*tiles), device)["C"]
    whole, without = SymbolDraft(device=device), SymbolDraft(device=device, penalties=f"no_{penalty}")
    found = whole.symbols(s)
    assert whole.penalties(found)[penalty][0] == pytest.approx(value)
    assert without.penalties(found)[penalty][0] == 1.0
    for name, other in without.penalties(found).items():
        if name != penalty:
            assert np.array_equal(other, whole.penalties(found)[name])


def test_short_rows_waste_transactions() -> None:
    """K1 K2 = 4 elements of A, half of a transaction of 32 bytes."""
    rows = tiled([4, 2, 8, 2, 1], [2, 2, 16, 1, 2], [32, 2, 2])
    whole = SymbolDraft(device=DEVICE).score(rows)[0]
    without = SymbolDraft(device=DEVICE, penalties="no_l2_memory").score(rows)[0]
    assert whole - without == pytest.approx(4 * 2 * N * N / 1.555e12)
