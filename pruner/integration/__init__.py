"""Thin adapters through which TVM's own tuners can use this package."""
