"""Shapes and types are checked while the tests run; an int is a fine float."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
