"""Traces replayed on loop nests whose extents are polynomials over decision columns."""
