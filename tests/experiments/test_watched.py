"""Long work under observation."""

import re
import time

import numpy as np

from experiments import watched
from experiments.watched import Watched


def test_the_memory_that_was_held_is_seen_after_it_is_free_again():
    with Watched(print, "work") as little:
        pass
    with Watched(print, "work") as much:
        block = np.ones(1 << 25)  # 256 MB
        time.sleep(0.3)
        del block
    assert 200 << 20 < much.peak_bytes - little.peak_bytes < 400 << 20
    assert much.seconds >= 0.3 > little.seconds


def test_work_that_takes_long_says_so(monkeypatch):
    monkeypatch.setattr(watched, "_PATIENCE_S", 0.1)
    said = []
    with Watched(said.append, "xgb  fitting"):
        time.sleep(0.5)
    assert said
    assert all(re.fullmatch(r"xgb  fitting: \d s so far", line) for line in said)
    before = len(said)
    time.sleep(0.3)
    assert len(said) == before
