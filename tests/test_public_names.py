import importlib
import pkgutil
import subprocess
import sys

import pytest

import whichwhen


def test_all_is_sorted_and_names_each_thing_once():
    assert sorted(set(whichwhen.__all__)) == sorted(whichwhen.__all__)


def test_all_is_what_has_a_home_and_the_version():
    homes = [name for names in whichwhen._HOMES.values() for name in names]
    assert len(set(homes)) == len(homes)
    assert {*homes, "__version__"} == set(whichwhen.__all__)


@pytest.mark.parametrize("name", whichwhen.__all__)
def test_each_public_name_can_be_had_and_is_the_one_at_home(name):
    value = getattr(whichwhen, name)
    if name != "__version__":
        home = importlib.import_module(f"whichwhen.{whichwhen._HOME[name]}")
        assert value is getattr(home, name)


def test_no_public_name_hides_a_module_or_is_hidden_by_one():
    modules = {module.name for module in pkgutil.iter_modules(whichwhen.__path__)}
    assert not modules & set(whichwhen.__all__)


def test_dir_lists_the_public_names():
    assert set(dir(whichwhen)) == set(whichwhen.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="fitt"):
        whichwhen.fitt  # noqa: B018


def test_names_for_type_checkers_are_the_same():
    import ast
    from pathlib import Path

    tree = ast.parse(Path(whichwhen.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in block.body for alias in node.names}
    assert imported == {name: f"whichwhen.{home}" for name, home in whichwhen._HOME.items()}


def test_importing_the_package_and_its_specs_does_not_import_torch():
    code = "import sys, whichwhen, whichwhen.specs, whichwhen.menu; whichwhen.RunSpec(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
