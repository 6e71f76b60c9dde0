"""Sorting tables whose texts are numbers into a list."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def sorted_by(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """The rows in ascending order of some columns; null comes last.

    Only the different texts are compared: their places in the order are sorted as numbers.
    """
    if not len(table):
        return table
    keys = [_sort_key(table[name].combine_chunks()) for name in reversed(order)]
    return table.take(pa.array(np.lexsort(keys)))


def _sort_key(column: pa.Array) -> np.ndarray:
    if pa.types.is_dictionary(column.type):
        places: np.ndarray = np.empty(len(column.dictionary) + 1, np.int64)
        places[pc.sort_indices(column.dictionary).to_numpy()] = np.arange(len(column.dictionary))
        places[-1] = len(column.dictionary)
        found: np.ndarray = places[column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)]
        return found
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(np.iinfo(np.int64).max)
    numbers: np.ndarray = column.to_numpy(zero_copy_only=False)
    return numbers
