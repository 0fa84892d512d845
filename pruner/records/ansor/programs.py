"""From workload keys to tensor programs: Ansor's logs name what they tuned, its users keep the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import te, topi
from tvm.te import Tensor

from pruner.errors import ConfigError
from pruner.records.ansor.dag import check_extents
from pruner.records.ansor.log import is_int

# Makes the arguments of a program, outputs last, of the values that follow the name in its workload key.
Program = Callable[..., Sequence[Tensor]]

# So that sums of a few sizes, such as of padded ones, stay numbers of 32 bits.
_MOST = 2**28
_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32")


def register(name: str, function: Program) -> None:
    """Makes `function` the program of every workload key that begins with `name`, as Ansor's
    `register_workload` did: called with the values behind the name, it gives the te tensors that are the
    program's arguments, outputs last."""
    if not name or not callable(function):
        raise ConfigError(
            f"{name!r} cannot be registered: give the first entry of the workload keys and a function of the "
            "others that gives te tensors."
        )
    _registered[name] = function


def program_of(name: str, programs: Mapping[str, Program] | None = None) -> Program:
    """The program of a workload key's first entry. Raises ConfigError, saying how to register one, for an
    unknown name."""
    known = {**_registered, **(programs or {})}
    if name not in known:
        raise ConfigError(
            f'no program is registered for the workload "{name}"; known are {", ".join(sorted(known))}. '
            f'Call pruner.records.ansor.register("{name}", function): function(*values of the key) gives '
            "the te tensors that are the program's arguments."
        )
    return known[name]


def _size(value: Any) -> int:
    if not is_int(value) or not 1 <= value <= _MOST:
        raise ValueError(f"{value!r} is no size")
    return int(value)


def _tensor(name: str, shape: Sequence[Any], dtype: Any = "float32") -> Tensor:
    if dtype not in _DTYPES:
        raise ValueError(f"{dtype!r} is none of {', '.join(_DTYPES)}")
    sizes = [_size(dim) for dim in shape]
    check_extents(name, sizes)
    return te.placeholder(sizes, dtype, name=name)


def _padding(value: Any) -> str | int:
    if value in ("SAME", "VALID"):
        return str(value)
    return 0 if is_int(value) and value == 0 else _size(value)


def _multiply(m: Any, k: Any, n: Any, dtype: Any) -> Sequence[Tensor]:
    a, b = _tensor("A", (m, k), dtype), _tensor("B", (k, n), dtype)
    rk = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, rk] * b[rk, j], axis=rk), name="C")
    return a, b, c


def _matmul(m: Any, n: Any, k: Any, dtype: Any = "float32") -> Sequence[Tensor]:
    return _multiply(m, k, n, dtype)


def _conv2d(
    n: Any, ci: Any, h: Any, w: Any, co: Any, kh: Any, kw: Any, stride: Any, padding: Any
) -> Sequence[Tensor]:
    data, weight = _tensor("data", (n, ci, h, w)), _tensor("weight", (co, ci, kh, kw))
    return data, weight, topi.nn.conv2d_nchw(data, weight, _size(stride), _padding(padding), 1)


def _conv2d_same(data_shape: Any, weight_shape: Any) -> Sequence[Tensor]:
    (n, ci, h, w), (co, inner, kh, kw) = data_shape, weight_shape
    if inner != ci:
        raise ValueError(f"the data has {ci} channels, the weight {inner}")
    return _conv2d(n, ci, h, w, co, kh, kw, 1, "SAME")


def _depthwise(
    n: Any, c: Any, h: Any, w: Any, kh: Any, kw: Any, stride: Any, padding: Any
) -> Sequence[Tensor]:
    data, weight = _tensor("data", (n, c, h, w)), _tensor("weight", (c, 1, kh, kw))
    return data, weight, topi.nn.depthwise_conv2d_nchw(data, weight, _size(stride), _padding(padding), 1)


def _pool(
    kind: Any, n: Any, c: Any, h: Any, w: Any, kh: Any, kw: Any, stride: Any, padding: Any
) -> Sequence[Tensor]:
    data = _tensor("data", (n, c, h, w))
    pads = topi.nn.get_pad_tuple(_padding(padding), (_size(kh), _size(kw)))
    up, left, down, right = (int(pad) for pad in pads)
    window, strides = (kh, kw), (_size(stride), stride)
    return data, topi.nn.pool2d(data, window, strides, (1, 1), (up, left, down, right), str(kind))


def _reduction(shape: Any, axis: Any, keepdims: Any) -> Sequence[Tensor]:
    data = _tensor("data", shape)
    if isinstance(axis, list) and len(axis) > len(shape):
        raise ValueError(f"{len(axis):,} axes of a tensor that has {len(shape)}")
    return data, topi.sum(data, axis=axis, keepdims=bool(keepdims))


def _relu(m: Any, n: Any) -> Sequence[Tensor]:
    data = _tensor("data", (m, n))
    return data, topi.nn.relu(data)


_registered: dict[str, Program] = {
    "matmul": _matmul,
    "matmul_layer": _matmul,
    "ansor_mm": _multiply,
    "conv2d_layer": _conv2d,
    "conv2d_ansor": _conv2d_same,
    "depthwise_conv2d_layer": _depthwise,
    "pool_layer": _pool,
    "reduction_layer": _reduction,
    "relu_layer": _relu,
}
