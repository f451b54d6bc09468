"""Tables of a result: columns as the core returns them, DataFrames for whoever asks for one.

pandas takes longer to load than a short run takes, so a run that is only written and printed does
without it: columns become CSV by Python's own writer, and Parquet by pyarrow alone.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd

    from weft.result import Column

Columns = Mapping[str, Any]
"""The values of each column: a list, or an array of numbers in which what is missing is NaN."""


class Tables(MutableMapping[str, "pd.DataFrame"]):
    """Tables by name, each made a DataFrame when it is first asked for."""

    def __init__(self, raw: Mapping[str, Columns]) -> None:
        self._tables: dict[str, Columns | pd.DataFrame] = dict(raw)

    def __getitem__(self, name: str) -> pd.DataFrame:
        import pandas as pd  # noqa: PLC0415 (half a second)

        found = self._tables[name]
        if not isinstance(found, pd.DataFrame):
            found = self._tables[name] = pd.DataFrame(dict(found))
        return found

    def __setitem__(self, name: str, table: pd.DataFrame) -> None:
        self._tables[name] = table

    def __delitem__(self, name: str) -> None:
        del self._tables[name]

    def __contains__(self, name: object) -> bool:
        # A mapping's own would make a DataFrame to find out.
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def columns(self, name: str) -> Columns:
        """Return the columns of a table, and no DataFrame is made for that."""
        found = self._tables[name]
        return _by_name(found)


def columns_of(tables: Mapping[str, pd.DataFrame], name: str) -> dict[str, list[Any]]:
    """Return the columns of a table as plain lists; none if there is no such table."""
    if name not in tables:
        return {}
    return {column: _plain(values) for column, values in _columns(tables, name).items()}


def records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return rows as plain JSON values; a missing number is None."""
    names = list(columns)
    return [
        {
            name: None if _is_missing(value) else value
            for name, value in zip(names, row, strict=True)
        }
        for row in zip(*columns.values(), strict=True)
    ]


def distinct(values: Sequence[Any]) -> int:
    """Count the different values of a column, without the missing ones."""
    return len({value for value in values if not _is_missing(value)})


def write(tables: Mapping[str, pd.DataFrame], columns: Sequence[Column], folder: Path) -> None:
    """Write each table as CSV and as Parquet, in which each column carries its unit and meaning."""
    for name in tables:
        described = {column.name: column for column in columns if column.table == name}
        own = _columns(tables, name)
        _write_csv(own, folder / f"{name}.csv")
        _write_parquet(own, described, folder / f"{name}.parquet")


def _columns(tables: Mapping[str, pd.DataFrame], name: str) -> Columns:
    if isinstance(tables, Tables):
        return tables.columns(name)
    return _by_name(tables[name])


def _by_name(table: Any) -> Columns:
    return {str(column): table[column] for column in table}


def _write_csv(columns: Columns, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        cells = (
            ["" if _is_missing(value) else value for value in _plain(values)]
            for values in columns.values()
        )
        writer.writerows(zip(*cells, strict=True))


def _write_parquet(columns: Columns, described: Mapping[str, Column], path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    arrays, fields = [], []
    for name, values in columns.items():
        array = _array(values)
        about = described.get(name)
        told = about and {"unit": about.unit, "description": about.description}
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata=told))
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), path)


def _array(values: Any) -> Any:
    """Make a column of Parquet; what the core returns without `pa.array`, which loads pandas."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        present = ~np.isnan(values)
        bits = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
        numbers = pa.py_buffer(np.ascontiguousarray(values))
        return pa.Array.from_buffers(pa.float64(), len(values), [bits, numbers])
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        texts = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)])
        if ends[-1] < 2**31:
            buffers = [pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(texts))]
            return pa.StringArray.from_buffers(len(texts), *buffers)
    found = pa.array(values, from_pandas=True)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    return found.cast(pa.string()) if pa.types.is_large_string(found.type) else found


def _plain(values: Any) -> list[Any]:
    found: list[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    return found


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 (only NaN differs from itself)
