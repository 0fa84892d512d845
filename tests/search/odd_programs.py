"""Programs that are none of TVM's test set."""

from __future__ import annotations

from tvm import te, topi


def row_argmax() -> tuple[te.Tensor, ...]:
    a = te.placeholder((8, 128), name="a")
    return a, topi.argmax(a, axis=1)


def swish() -> tuple[te.Tensor, ...]:
    """What a product ends in is read twice."""
    a, b, bias = (te.placeholder(s, name=n) for s, n in (((48, 40), "a"), ((40, 64), "b"), ((64,), "bias")))
    k = te.reduce_axis((0, 40), name="k")
    c = te.compute((48, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    y = te.compute((48, 64), lambda i, j: c[i, j] + bias[j], name="y")
    return a, b, bias, te.compute((48, 64), lambda i, j: y[i, j] * te.sigmoid(y[i, j]), name="z")
