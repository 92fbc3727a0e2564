"""What keeps the code readable: functions that fit on a screen, and one meaning for each name of a type."""

import ast
from collections import Counter
from pathlib import Path

import saccade

TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in Path(saccade.__file__).parent.rglob("*.py")}


def test_no_function_has_more_than_60_lines():
    long = [
        f"{path.name}: {node.name}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 60
    ]
    assert long == []


def test_no_two_types_have_the_same_name():
    """Of the command line, only classes count: its aliases are options, and each belongs to one command."""
    names = Counter(node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    names.update(name for path, tree in TREES.items() if path.parent.name != "cli" for name in aliases(tree))
    assert [name for name, count in names.items() if count > 1] == []


def aliases(tree: ast.Module) -> list[str]:
    """The type aliases of a module; a TypeVar stands for any type, so its name has no meaning elsewhere."""
    given = [node for node in tree.body if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call)]
    names = [target.id for node in given for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if name[0].isupper() and not name.isupper()]
