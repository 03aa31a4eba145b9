"""Experiments that are no part of the package. Run them from the repository's root: ``python -m experiments NAME``."""
