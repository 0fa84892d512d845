"""Tools around the package that are run from a clone."""
