"""Points as lines of a spool: what was measured, at which step, when, by which source, and how far that was read.

Pure. Each line carries the offset of its source behind what it tells, so whoever reads the spool back knows where to go
on, wherever the writer was killed: `{"t":1795.2,"s":12,"m":{"loss":0.1},"f":"stdout","o":[2,4711]}`.
"""

from __future__ import annotations

import json
import re
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

    Point = Tuple[str, float, Optional[int], float, int]  # name, value, step, at, end in its source
    Picked = Dict[int, List[Tuple[str, float]]]  # by the number of a line: names and values
    Offsets = Dict[str, Tuple[int, int, int]]  # by source: its number, the file's identity, how far it was read

LOG, MLFLOW, TENSORBOARD, HUGGINGFACE = "log", "mlflow", "tensorboard", "huggingface"
CSV, TRAINER_STATE, HYPERTUNE, REGEX, STDOUT = "csv", "trainer_state", "hypertune", "regex", "stdout"
ARGUMENTS, HYDRA, HPARAMS, GIVEN = "arguments", "hydra", "hparams", "param"

NAME_CHARS_MAX = 200
LINE_FIGURES_MAX = 200
TOGETHER_S = 1.0  # Points of one step that are further apart than this keep times of their own.

_OFFSET = re.compile(rb'^\{.*"o":\[(\d+),(\d+)(?:,(\d+),("(?:[^"\\]|\\.)*"))?\]\}$', re.MULTILINE)
_pack, _unpack = struct.Struct("<f").pack, struct.Struct("<f").unpack
_quote = json.encoder.encode_basestring_ascii


def lines_of(points: Iterable[Point], source: str, number: int, single: bool = False) -> bytes:
    """The spool's lines of some points; those of one step and moment share a line. `single`: of 32 bits each."""
    lines: list[str] = []
    figures: dict[str, str] = {}
    told = _single if single else _double
    names: dict[str, str] = {}
    step_now: int | None = None
    begun = 0.0
    until = 0
    for name, value, step, at, end in points:
        quoted = names.get(name) or names.setdefault(name, _quote(name[:NAME_CHARS_MAX]))
        apart = step != step_now or not -TOGETHER_S < at - begun < TOGETHER_S or len(figures) >= LINE_FIGURES_MAX
        if figures and (apart or quoted in figures):
            lines.append(_line(begun, step_now, figures, source, number, until))
            figures = {}
        if not figures:
            step_now, begun = step, at
        figures[quoted] = told(value)
        until = end
    if figures:
        lines.append(_line(begun, step_now, figures, source, number, until))
    return "".join(lines).encode()


def _line(at: float, step: int | None, figures: Mapping[str, str], source: str, number: int, until: int) -> str:
    said = ",".join([f"{name}:{value}" for name, value in figures.items()])
    count = "" if step is None else f'"s":{step},'
    return f'{{"t":{_time(at)},{count}"m":{{{said}}},"f":"{source}","o":[{number},{until}]}}\n'


def _time(at: float) -> str:
    return f"{at:.3f}" if -1e11 < at < 1e11 else "0"


def _double(value: float) -> str:
    if value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _single(value: float) -> str:
    """The shortest of two forms from which a number of 32 bits can be had again."""
    if value - value != 0:
        return _double(value)
    short = f"{value:.7g}"
    return short if _unpack(_pack(float(short)))[0] == value else f"{value:.9g}"


def params_line(params: Mapping[str, Any], source: str, at: float, number: int, until: int) -> bytes:
    said = json.dumps({str(name)[:NAME_CHARS_MAX]: value for name, value in params.items()})
    return f'{{"t":{_time(at)},"p":{said},"f":"{source}","o":[{number},{until}]}}\n'.encode()


def begin_line(number: int, identity: int, path: str) -> bytes:
    """Say that a source has this number from here on; `identity` tells a file from another of the same name."""
    return f'{{"m":{{}},"o":[{number},0,{identity},{_quote(path)}]}}\n'.encode()


def offsets_in(spool: bytes, known: Offsets | None = None) -> Offsets:
    """How far each source was read, by the lines of a spool. A line that was cut by a kill tells nothing."""
    offsets: Offsets = dict(known or {})
    paths = {number: path for path, (number, _, _) in offsets.items()}
    for found in _OFFSET.finditer(spool):
        number, offset = int(found.group(1)), int(found.group(2))
        if found.group(4):
            path = str(json.loads(found.group(4)))
            paths[number] = path
            offsets[path] = (number, int(found.group(3)), 0)
        elif number in paths:
            path = paths[number]
            offsets[path] = (number, offsets[path][1], offset)
    return offsets
