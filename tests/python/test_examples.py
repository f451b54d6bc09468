"""The notebooks, run: what a cell prints and returns is what is stored below it.

`UPDATE_EXPECT=1` stores what comes out.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


def carry_out(source: str, names: dict[str, Any]) -> str:
    """Run a cell; return what it prints, and its last value, as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                print(value)
    return printed.getvalue()


def output(text: str) -> list[dict[str, Any]]:
    lines = text.splitlines(keepends=True)
    return [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_comes_out(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    with pd.option_context("display.width", 100, "display.max_columns", 20):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                found.append(output(carry_out("".join(cell["source"]), names)))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if "UPDATE_EXPECT" in os.environ:
        for cell, outputs in zip(cells, found, strict=True):
            cell["outputs"] = outputs
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [cell["outputs"] for cell in cells] == found
    assert any(found)


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2
