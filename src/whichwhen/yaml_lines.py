"""YAML as plain data, with the line of each key: so that an error can name it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from whichwhen.errors import SpecError

_DEEPEST = 6


class Lines:
    """On which line of a file each key stands. A place is a path of keys and positions."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._line: dict[tuple[Any, ...], int] = {}
        self._other: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def put(self, place: tuple[Any, ...], line: int) -> None:
        """Remember the line of a place, from 1."""
        self._line[place] = line

    def also(self, place: tuple[Any, ...], other: tuple[Any, ...]) -> None:
        """Let ``place`` (and what is below it) mean ``other``."""
        self._other[place] = other

    def at(self, place: tuple[Any, ...]) -> str:
        """``file, line 7``: of the place, or of the nearest one above it."""
        for end in range(len(place), 0, -1):
            for head in range(end, 0, -1):
                if place[:head] in self._other and (line := self._line.get(self._other[place[:head]] + place[head:end])):
                    return f"{self.file}, line {line}"
            if line := self._line.get(place[:end]):
                return f"{self.file}, line {line}"
        return self.file

    def error(self, place: tuple[Any, ...], got: str, *, expected: str = "", do: str = "") -> SpecError:
        """An error that names file and line."""
        return SpecError(f"{self.at(place)}: {got}", expected=expected, do=do)


def read_yaml(text: str, lines: Lines, texts: Collection[str] = ()) -> Any:
    """Mappings, lists and scalars; a key that comes twice is an error.

    Keys, items of lists, and what stands below a key in ``texts`` are taken as they are written: NO is nitric oxide, not
    False. A number such as 1e3, which YAML 1.1 takes for text, is a number.
    """
    import yaml

    loader = yaml.SafeLoader(text)

    def build(node: yaml.Node, place: tuple[Any, ...], as_text: bool) -> Any:
        if len(place) > _DEEPEST:
            raise lines.error(place, "nested too deep", expected="the form in docs/own-data.md")
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Any] = {}
            for key, value in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                line = key.start_mark.line + 1
                if name is None:
                    raise SpecError(f"{lines.file}, line {line}: a key that is not a name", expected="text before the colon")
                if name in found:
                    raise SpecError(f"{lines.file}, line {line}: {name!r} comes twice", expected="each name once")
                lines.put((*place, name), line)
                found[name] = build(value, (*place, name), name in texts)
            return found
        if isinstance(node, yaml.SequenceNode):
            items = []
            for i, item in enumerate(node.value):
                lines.put((*place, i), item.start_mark.line + 1)
                items.append(build(item, (*place, i), as_text=True))
            return items
        return _scalar(loader, node, as_text)

    try:
        node = loader.get_single_node()
        return None if node is None else build(node, (), as_text=False)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        raise SpecError(f"{lines.file}{where}: not YAML ({reason})", do="check indents, colons and brackets") from None
    finally:
        loader.dispose()


def _scalar(loader: Any, node: Any, as_text: bool) -> Any:
    value = loader.construct_object(node)
    if value is None:
        return "" if as_text and node.style else None
    if as_text:
        return node.value
    if isinstance(value, str) and not node.style:
        try:
            return float(value)
        except ValueError:
            return value
    return value
