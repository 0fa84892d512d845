"""The machine that programs are run on has no pruner."""

raise ImportError("pruner is not there")
