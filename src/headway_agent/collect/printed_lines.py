"""What one printed line says of a training: figures by name, and the step or epoch that it tells them for.

Pure, and without memory: the line alone decides. Which of the figures are metrics is printed_metrics.py's to know:
that takes several lines.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

NAME_CHARS_MAX = 200
FIGURES_MAX = 200
DEPTH_MAX = 3
STEP_WORDS = frozenset(("step", "steps", "global_step", "iteration", "iter", "train_step", "trainer/global_step"))
EPOCH_WORDS = frozenset(("epoch", "epochs", "train/epoch"))

NUMBER = r"[+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)\b"
SPLIT = r"train(?:ing)?|val(?:id|idation)?|test|eval(?:uation)?|dev|avg|average|mean|best|total|running|batch"
WORD = (
    r"loss|acc(?:uracy)?(?:@\d+)?|top-?\d|ppl|perplexity|bpc|bpb|lr|error|err|f1|auc|auroc|mae|mse|rmse|bleu|wer|m?iou"
    r"|map|reward|return|psnr|nll|elbo|mfu"
)
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08+")
_PAIR = re.compile(
    rf"(?<![\w.@/'\"%\\-])(?P<split>(?:(?:{SPLIT})[ ]){{0,2}})(?P<name>[A-Za-z_][\w./@+-]{{0,120}}(?:\(\w{{1,20}}\))?)"
    rf"[ ]{{0,3}}[=:][ \t]{{0,8}}(?P<number>{NUMBER})(?P<after>[^\s,;|)\]}}]*)",
    re.IGNORECASE,
)
_SPACED = re.compile(
    rf"(?<![\w.@/-])(?P<split>(?:(?:{SPLIT})[ ]){{0,2}})(?P<name>{WORD})[ \t]{{1,8}}(?P<number>{NUMBER})"
    r"(?P<after>[^\s,;|)\]}]*)",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    rf"['\"](?P<name>[^'\"\\]{{1,{NAME_CHARS_MAX}}})['\"]\s?:\s?(?:['\"]|(?:tensor|array|np\.\w+|numpy\.\w+)\()?"
    rf"(?P<number>{NUMBER})['\")]{{0,2}}\s?(?=[,}}])",
    re.IGNORECASE,
)
_BOOSTED = re.compile(r"\[(?P<step>\d{1,9})\]\s+(?=\S)")
_BOOSTED_PAIR = re.compile(rf"(?P<name>[\w@.' -]{{1,120}}?):[ ]?(?P<number>{NUMBER})(?: \+ \S+|\+\S+)?(?=\s|$)", re.I)
_CATBOOST = re.compile(r"(?P<step>\d{1,9}):\t(?=learn|test)")
_BAR = re.compile(
    r"(?P<label>[^|]{0,80}?)\d{1,3}%\|[^|]*\|[ ]*(?P<number>[\d.]+)(?P<unit>[kMG]?)/(?P<total>[\d.]+)[kMG]?[ ]?"
    r"\[[^\],]*(?:,[^\],=]*)?(?P<postfix>[^\]]*)\]?"
)
_KERAS = re.compile(r"(?P<number>\d{1,9})/(?P<total>\d{1,9}|Unknown)\s.*?(?:\d+m?u?s(?:/step|/epoch)?)(?P<rest> - .*)")
_STEP = re.compile(
    r"(?<![\w/.-])(?:(?:global|train|training|trainer|current|optimi[sz]er)[_ /.-]?)?"
    r"(?P<word>step|iteration|iter|update|epoch)['\"]?[ ]{0,3}[:=#]?[ ]{0,3}[\[('\"]?[ ]{0,6}"
    r"(?P<number>\d{1,12})(?:\.0+)?(?!\w|\.\d|[ ]?(?:ms|s|sec|min|%)\b)(?:[ ]?(?:/|of)[ ]?(?P<total>\d{1,12}))?",
    re.IGNORECASE,
)
_COUNT = re.compile(r"\[[ ]{0,8}(?P<number>\d{1,12})[ ]?/[ ]?(?P<total>\d{1,12})(?:[ ]\(\d+%\))?\]")
_CELL = re.compile(rf"[│|][ ]+(?P<name>[A-Za-z_][\w./@-]{{0,120}})[ ]+[│|][ ]+(?P<number>{NUMBER})[ ]+(?=[│|])", re.I)
_SPACES = re.compile(r"\s+")


class Said:
    """One line: its figures, and what it counts. `lap` is set where the count begins again with every epoch."""

    __slots__ = ("bar", "epoch", "figures", "fraction", "lap", "number", "step", "total")

    def __init__(self) -> None:
        self.figures: list[tuple[str, float]] = []
        self.step: int | None = None
        self.epoch: int | None = None
        self.fraction = False  # Its epoch is told as a part, as `0.25`: it is no count.
        self.lap = False  # `number` of `total`, within an epoch.
        self.number = self.total = 0
        self.bar = ""  # Whose progress bar it is: drawn over and over, for the same step too.


def read_line(line: bytes, ended: bool = True) -> Said | None:
    """What a line says; None for one that says nothing. `ended`: it is not drawn over by the next one."""
    text = line.decode("utf-8", "replace")
    if "\x1b" in text or "\x08" in text:
        text = _COLOURS.sub("", text)
    text = text.strip()
    said = Said()
    if "{" in text and _read_mapping(text, said):
        return said
    if "%|" in text:
        bar = _BAR.match(text)
        if bar is not None:
            return _read_bar(bar, said)
    keras = _KERAS.match(text) if " - " in text and text[:1].isdigit() else None
    if keras is not None:
        return _read_keras(keras, said) if ended else None
    if text[:1] == "[":
        boosted = _BOOSTED.match(text)
        if boosted is not None:
            return _read_boosted(boosted, text, said)
    catboost = _CATBOOST.match(text)
    if catboost is not None:
        said.step = int(catboost.group("step"))
    _read_counts(text, said)
    _read_pairs(text, said)
    return said if said.figures or said.step is not None or said.epoch is not None else None


# --- the forms ---


def _read_mapping(text: str, said: Said) -> bool:
    """A line of JSON, or a dictionary as Python prints it."""
    begin, end = text.find("{"), text.rfind("}") + 1
    if end <= begin:
        return False
    inner = text[begin:end]
    pairs: list[tuple[str, Any]] = []
    if begin == 0 and end == len(text) and '"' in inner:
        try:
            pairs = list(_flat(json.loads(inner)))
        except (ValueError, RecursionError):
            pairs = []
    if not pairs:
        pairs = [(found.group("name"), float(found.group("number"))) for found in _QUOTED.finditer(inner)]
    for name, number in pairs[:FIGURES_MAX]:
        if name.lower() in STEP_WORDS or name.lower() in EPOCH_WORDS:
            _read_count(name.lower(), float(number), said)
        else:
            said.figures.append((name[:NAME_CHARS_MAX], float(number)))
    if not said.figures:
        return False
    _read_counts(text[:begin], said)
    return True


def _read_count(name: str, number: float, said: Said) -> None:
    if not number.is_integer():
        said.fraction = said.fraction or name in EPOCH_WORDS
    elif name in STEP_WORDS:
        said.step = int(number)
    else:
        said.epoch = int(number)


def _flat(value: Any, above: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict) and depth < DEPTH_MAX:
        for name, inner in value.items():
            yield from _flat(inner, f"{above}/{name}" if above else str(name), depth + 1)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and above:
        try:
            yield above, float(value)
        except OverflowError:
            return
    elif isinstance(value, str) and len(value) < 40 and re.fullmatch(NUMBER, value, re.IGNORECASE):
        yield above, float(value)


def _read_bar(bar: re.Match[str], said: Said) -> Said | None:
    """A bar of tqdm: its figures are behind the speed, and its label may tell the epoch."""
    label = bar.group("label").strip()
    if bar.group("unit") or "." in bar.group("number"):
        return None  # Bytes: a download.
    _read_counts(label, said)
    said.step, said.bar = None, label or "bar"
    said.lap, said.number, said.total = True, int(bar.group("number")), int(float(bar.group("total")))
    _read_pairs(bar.group("postfix"), said)
    return said


def _read_keras(keras: re.Match[str], said: Said) -> Said | None:
    """The line of an epoch of Keras. Until its last step it shows means that are not done."""
    if keras.group("number") != keras.group("total"):
        return None
    for part in keras.group("rest").split(" - "):
        found = _PAIR.fullmatch(part.strip())
        if found is not None and not found.group("after"):
            said.figures.append((found.group("name"), float(found.group("number"))))
    return said if said.figures else None


def _read_boosted(boosted: re.Match[str], text: str, said: Said) -> Said | None:
    """`[5]\ttrain-rmse:0.53` of XGBoost, `[5]\tvalid_1's l2: 0.16` of LightGBM."""
    said.step = int(boosted.group("step"))
    for part in text[boosted.end() :].split("\t"):
        found = _BOOSTED_PAIR.match(part.strip())
        if found is not None:
            name = _SPACES.sub("_", found.group("name").strip().replace("'s ", "/"))
            said.figures.append((name, float(found.group("number"))))
    return said if said.figures else None


def _read_counts(text: str, said: Said) -> None:
    """The step and the epoch that a text tells."""
    total = ""
    for found in _STEP.finditer(text):
        if found.group("word").lower() == "epoch":
            if said.epoch is None:
                said.epoch = int(found.group("number"))
        elif said.step is None:
            said.step, total = int(found.group("number")), found.group("total") or ""
    if said.step is None:
        count = _COUNT.search(text)
        if count is not None:
            said.lap, said.number, said.total = True, int(count.group("number")), int(count.group("total"))
    elif said.epoch is not None and total:  # `Epoch 3, step 20/100`: one of the epoch's.
        said.lap, said.number, said.total, said.step = True, said.step, int(total), None


def _read_pairs(text: str, said: Said) -> None:
    figures: dict[str, float] = {}
    for pattern in (_PAIR, _SPACED, _CELL):
        if pattern is _CELL and "│" not in text:
            continue
        for found in pattern.finditer(text):
            name = found.group("name")
            if pattern is not _CELL and not _is_plain(name, found):
                continue
            if pattern is _PAIR and (name.lower() in STEP_WORDS or name.lower() in EPOCH_WORDS):
                continue
            split = "" if pattern is _CELL else found.group("split")
            if split:
                name = _SPACES.sub("_", f"{split.strip()} {name}".lower())
            if len(figures) < FIGURES_MAX:
                figures.setdefault(name, float(found.group("number").replace("_", "")))
    said.figures += figures.items()


def _is_plain(name: str, found: re.Match[str]) -> bool:
    """Whether the number is the value, and not the beginning of a time, a version, a share or a quantity."""
    after = found.group("after")
    if found.re is _SPACED and found.group("number").lstrip("+-").isdigit():
        return False  # `loss 3 times`.
    return after in ("", ".", "%", "'", '"', "%.", "...")
