"""The script of a page, which the build puts together."""

from __future__ import annotations

import pytest

from weft import bundle


def test_the_script_of_a_page_comes_with_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Putting it together takes the renderer longer than all else that a page is made of."""
    bundle.script.cache_clear()
    monkeypatch.setattr(bundle, "_together", lambda: pytest.fail("it was put together anew"))
    assert "vegaEmbed" in bundle.script()
    bundle.script.cache_clear()
    monkeypatch.setattr(bundle, "_head", lambda: "// of another renderer")
    monkeypatch.setattr(bundle, "_together", lambda: "another")
    assert bundle.script() == "another"
    bundle.script.cache_clear()
