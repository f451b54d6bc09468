"""The JSON schema of files accepts what Weft accepts, so that an editor marks nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import weft

ROOT = Path(__file__).parents[2]
SHIPPED = [
    file
    for folder in ("systems", "experiments", "bench")
    for file in sorted((ROOT / folder).glob("*.toml"))
    if file.name != "Cargo.toml"
]


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(weft.schema())


def test_every_shipped_file_is_valid(validator: jsonschema_rs.Validator) -> None:
    assert len(SHIPPED) > 100
    for file in SHIPPED:
        error = next(validator.iter_errors(tomllib.loads(file.read_text())), None)
        assert error is None, f"{file}: {error}"


BULK = "base = 'clint'\n[channel.bulk]\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("base = 'clint'\n[chanel.bulk]\nerrors = 0.1\n", []),
        (BULK + "link.raet = '2 Gbit/s'\n", ["channel", "bulk", "link"]),
        (BULK + "control = 'unacknowledgd'\n", ["channel", "bulk", "control"]),
        (BULK + "switch.scheduled = { gpa = '1 us' }\n", ["channel", "bulk", "switch"]),
        ("base = 'clint'\nrun.seeds = 'many'\n", ["run", "seeds"]),
        ("base = 'clint'\npreset.mine.chanel.bulk.errors = 0.1\n", ["preset"]),
        ("base = 'clint'\nunset = 'channel.bulk'\n", ["unset"]),
    ],
)
def test_what_weft_refuses_is_marked(
    validator: jsonschema_rs.Validator, text: str, place: list[str]
) -> None:
    file: dict[str, Any] = tomllib.loads(text)
    assert [error.instance_path for error in validator.iter_errors(file)] == [place]
