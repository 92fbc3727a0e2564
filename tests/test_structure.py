"""What keeps the code readable: functions that fit on a screen, and one meaning for each class name."""

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


def test_no_two_classes_have_the_same_name():
    names = Counter(node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []
