"""The machine that programs are run on has no tvm."""

raise ImportError("tvm is not there")
