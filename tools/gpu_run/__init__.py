"""Checks and times prepared programs on a GPU machine: Python, NumPy and CuPy are all that it needs.

`tools/gpu_check.sh prepare` copies this package beside the programs, so it imports nothing else of this
project.
"""
