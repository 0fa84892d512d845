"""A convolution of ResNet-50 (1x64x56x56, 64 filters of 3x3) with bias and ReLU.

pruner tune workload=examples/conv_bias_relu.py:conv_bias_relu
"""

from tvm import te, tirx


def conv_bias_relu(channels: int = 64, size: int = 56, filters: int = 64, kernel: int = 3):
    """relu(conv2d(data, weight) + bias), stride 1, padded so that the image keeps its size.

    Channels come last (NHWC, weights HWIO): vector lanes run along the filters, and of forty random
    schedules the best took a quarter of the time that it took with NCHW."""
    pad = kernel // 2
    data = te.placeholder((1, size, size, channels), name="data")
    weight = te.placeholder((kernel, kernel, channels, filters), name="weight")
    bias = te.placeholder((filters,), name="bias")
    padded = te.compute(
        (1, size + 2 * pad, size + 2 * pad, channels),
        lambda n, h, w, c: tirx.if_then_else(
            tirx.all(h >= pad, h < size + pad, w >= pad, w < size + pad),
            data[n, h - pad, w - pad, c],
            tirx.const(0.0, "float32"),
        ),
        name="padded",
    )
    rc = te.reduce_axis((0, channels), "rc")
    rh = te.reduce_axis((0, kernel), "rh")
    rw = te.reduce_axis((0, kernel), "rw")
    conv = te.compute(
        (1, size, size, filters),
        lambda n, h, w, f: te.sum(padded[n, h + rh, w + rw, rc] * weight[rh, rw, rc, f], axis=[rc, rh, rw]),
        name="conv",
    )
    biased = te.compute(conv.shape, lambda n, h, w, f: conv[n, h, w, f] + bias[f], name="biased")
    relu = te.compute(conv.shape, lambda *i: tirx.max(biased(*i), tirx.const(0.0, "float32")), name="relu")
    return te.create_prim_func([data, weight, bias, relu])
