"""A mapping that never changes: with other entries it is another one, which shares all that is the same.

Entries lie in buckets, buckets in rows. A change copies the buckets that it touches and their rows, so that a version
of a hundred thousand jobs is made in microseconds, and whoever holds an older one reads on undisturbed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

FULL = 32  # Entries of a bucket on average, above which there are more buckets.
SHIFT_LEAST, SHIFT_MOST = 2, 8  # As a power of two: rows, and as many buckets in each.


class FrozenMap(Mapping[Key, Value], Generic[Key, Value]):
    __slots__ = ("_mask", "_rows", "_shift", "_size")

    def __init__(self, entries: Mapping[Key, Value] | None = None) -> None:
        entries = entries or {}
        shift = SHIFT_LEAST
        while len(entries) > FULL << 2 * shift and shift < SHIFT_MOST:
            shift += 1
        width = 1 << shift
        buckets: list[dict[Key, Value]] = [{} for _ in range(width * width)]
        for key, value in entries.items():
            buckets[hash(key) & (width * width - 1)][key] = value
        rows = tuple(tuple(buckets[start : start + width]) for start in range(0, width * width, width))
        self._fill(rows, shift, len(entries))

    def _fill(self, rows: tuple[tuple[dict[Key, Value], ...], ...], shift: int, size: int) -> None:
        self._rows, self._shift, self._mask, self._size = rows, shift, (1 << shift) - 1, size

    def but(self, changes: Mapping[Key, Value | None]) -> FrozenMap[Key, Value]:
        """The same with these entries; None takes one away."""
        if not changes:
            return self
        shift, mask, size = self._shift, self._mask, self._size
        rows: list[tuple[dict[Key, Value], ...]] = list(self._rows)
        opened: dict[int, list[dict[Key, Value]]] = {}
        fresh: dict[int, dict[Key, Value]] = {}
        for key, value in changes.items():
            index = hash(key) & ((mask << shift) | mask)
            bucket = fresh.get(index)
            if bucket is None:
                row = opened.get(index >> shift)
                if row is None:
                    row = opened[index >> shift] = list(rows[index >> shift])
                bucket = fresh[index] = row[index & mask] = dict(row[index & mask])
            size -= len(bucket)
            if value is None:
                bucket.pop(key, None)
            else:
                bucket[key] = value
            size += len(bucket)
        for at, row in opened.items():
            rows[at] = tuple(row)
        made: FrozenMap[Key, Value] = FrozenMap.__new__(FrozenMap)
        made._fill(tuple(rows), shift, size)
        return FrozenMap(dict(made.items())) if size > FULL << 2 * shift + 2 and shift < SHIFT_MOST else made

    def __getitem__(self, key: Key) -> Value:
        index = hash(key)
        return self._rows[(index >> self._shift) & self._mask][index & self._mask][key]

    def __contains__(self, key: object) -> bool:
        index = hash(key)
        return key in self._rows[(index >> self._shift) & self._mask][index & self._mask]

    def __iter__(self) -> Iterator[Key]:
        for row in self._rows:
            for bucket in row:
                yield from bucket

    def __len__(self) -> int:
        return self._size
