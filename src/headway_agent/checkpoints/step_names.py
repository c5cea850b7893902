"""What the name of a file says: the step it was saved at, whose share it is, and whether it is half-written.

Pure. Names follow the habits of the frameworks; a number that may be anything (a loss, a date, a process, a model's
size) is not taken for a step. What the file says inside is in formats/saved_steps.py.
"""

from __future__ import annotations

import re
from collections import namedtuple
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, NamedTuple

    class NamedStep(NamedTuple):
        """The unit is "step", "epoch", "episode", or empty for a number that does not say what it counts."""

        unit: str
        number: int

else:
    NamedStep = namedtuple("NamedStep", ("unit", "number"))

# The lower, the more surely it is what the job counts in; of equals, the outermost directory's is taken.
STEP, EPOCH, EPISODE, COUNT_BEFORE, BARE, PLURAL = range(6)
UNITS = {"step": STEP, "epoch": EPOCH, "episode": EPISODE}
MULTIPLES = {"": 1, "k": 1000, "m": 1000000}
DIGITS_MAX = 9  # Of a number without a word and without leading zeros: more is a time or somebody's id.

# What is not a step wherever it stands. Put out of sight first, so that nothing of it is taken for a number.
_NOISE = re.compile(
    r"""[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}                       # a UUID
    | (?<!\d)\d+-of-\d+                                                   # a part of several
    | (?<!\d)(?:19|20)\d\d(?P<apart>[-_./])[01]\d(?P=apart)[0-3]\d(?!\d)  # a date
    | (?<!\d)20\d\d[01]\d[0-3]\d(?:[-_t.]?\d{4,6})?(?!\d)                 # a date in one, perhaps with its time
    | (?<!\d)[0-2]\d(?P<colon>[-:])[0-5]\d(?P=colon)[0-5]\d(?!\d)         # a time of day
    | (?<!\d)[0-2]?\dh[0-5]\dm?(?:[0-5]\ds?)?(?![0-9a-z])
    | (?<!\d)1\d{9}(?:\d{3}|\d{6}|\d{9})?(?!\d)                           # seconds since 1970, or parts of them
    | (?<![0-9a-z])\d+(?:\.\d+)?e\d+ | (?<!\d)\d+(?:\.\d+)?e[-+]\d+       # 1e-05
    """,
    re.VERBOSE | re.IGNORECASE,
)
# One or more files with these names belong to each rank, optimizer, layer or the like: their number is not a step.
_SHARE = re.compile(
    r"""(?<![a-z])(?:rank|shard|part|layer|node|host|gpu|device|cuda|worker|process|proc|mp|tp|pp|dp|fsdp|mesh
        |rng_states?|random_states?|optimizer|optim|scheduler|scaler|sampler|dl_state_dict|pytorch_model
        |custom_checkpoint|pid|port)[-_.=]?\d+(?![a-z])
    | ^__\d+_\d+\. | tfevents | \.data- | ^0(?:\.\d+)+$ | ^\d+(?:\.\d+)+$""",
    re.VERBOSE | re.IGNORECASE,
)
# Settings, metrics and the like: the word, and the number that follows it.
_SETTING = re.compile(
    r"""(?<![a-z])(?:[a-z_]*(?:loss|acc|accuracy|score|metric|reward|error|err|perplexity|ppl|bleu|rouge|wer|iou|map
            |f1|auc|psnr|ssim|fid|mse|mae|rmse|size|dim|version|seed|lr|wd)
        |bs|batch|fold|cv|trial|run|stage|phase|exp|experiment|train|test|val|eval|predict|detect|segment|classify|job
        |task|attempt|try|top|patience|heads?|layers?|hidden|depth|width|bits?|q|int|fp|bf|float|gpus?|crop|img|image
        |res|resolution|rev|release|(?:steps?|epochs?|iters?)_?per_[a-z]+
        |(?:max|num|n|total|warmup|every|per)[-_]?(?:steps?|epochs?|iters?|iterations?|updates?))
        [-_.=]?v?\d+(?:\.\d+)*(?![0-9])""",
    re.VERBOSE | re.IGNORECASE,
)
_KEYED = re.compile(r"(?<![a-z])[a-z_][\w/]*=-?[\d.]+", re.IGNORECASE)
_FLOAT = re.compile(r"(?<![\d.])\d+(?:\.\d+)+(?!\d)")
_MODEL = re.compile(  # Models and data whose names end in a number that may stand apart.
    r"(?<![a-z])(?:gpt|llama|resnet|resnext|vgg|vit|bert|t|cifar|yolo|densenet|efficientnet|phi|qwen|gemma|mistral|opt"
    r"|inception|swin|convnext|dino|clip|whisper|wav2vec|roberta|wikitext|imagenet|hrnet|mobilenet|shufflenet|regnet"
    r"|squeezenet|stylegan|sd|sdxl|pythia|bloom|falcon|olmo|smollm|deepseek|v|ver|version)"
    r"v?(?:[-_][a-z])?[-_.]?\d+(?:\.\d+)*(?!\d)",
    re.IGNORECASE,
)

_WORD = re.compile(
    r"""(?<![a-z])(?<!per_)(?<!per-)
        (?:(?P<step>(?:global|train|training|opt|optim|time)?[-_]?(?:step|iteration|iter|update)|(?<!\d)it)
          |(?P<epoch>epoch|(?<!\d)ep) |(?P<episode>episode))
        (?P<plural>s?)[-_.=:\ ]{0,2}(?P<number>\d{1,15})(?:(?P<multiple>[km])(?![a-z]))?(?![0-9a-z])(?!\.\d)""",
    re.VERBOSE | re.IGNORECASE,
)
_COUNT_BEFORE = re.compile(
    r"(?<![0-9a-z.])(?P<number>\d{1,15})(?P<multiple>[km]?)[-_ ]?"
    r"(?:(?P<step>(?:time)?steps?|iterations?|iters?|its|updates?)|(?P<epoch>epochs?|ep)|(?P<episode>episodes?))"
    r"(?![a-z0-9])",
    re.IGNORECASE,
)
_HF = re.compile(r"^(?:.*[-_])?checkpoint-(?P<number>\d{1,15})$", re.IGNORECASE)
_FAIRSEQ = re.compile(r"^checkpoint_\d+_(?P<number>\d{1,15})\.\w+$", re.IGNORECASE)
_CHECKPOINT = r"checkpoint|chkpt|ckpt|chkp|cp|snapshot|snap"
_MADE = rf"{_CHECKPOINT}|model|weights?|save|saved|state|net|network|params|policy|agent|learner|best|last|latest"
_CHECKPOINT_NUMBER = re.compile(rf"(?<![a-z])(?:{_CHECKPOINT})s?[-_.= ]?(?P<number>\d{{1,15}})(?![0-9a-z])", re.I)
_MADE_NUMBER = re.compile(rf"(?<![a-z])(?:{_MADE})[-_.= ](?P<number>\d{{1,15}})(?![0-9a-z])", re.IGNORECASE)
_FIRST_NUMBER = re.compile(rf"^(?P<number>\d{{1,15}})(?:[-_](?:{_MADE})(?![a-z0-9])|$)", re.IGNORECASE)
_PADDED_NUMBER = re.compile(r"(?<![0-9.])(?P<number>0\d{2,14})(?![0-9a-z])", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"[a-z)\]~][-_.](?P<number>\d{1,9})(?:[-_.]~)*$", re.IGNORECASE)
_ENDING = re.compile(r"(?:\.(?:[a-z]{1,12}|h5|hdf5|bz2|lz4))+$", re.IGNORECASE)
_KERAS = re.compile(r"\.(?:keras|h5|hdf5)$", re.IGNORECASE)

_RANK = re.compile(
    r"^__(?P<dcp>\d+)_\d+\.distcp$"
    r"|(?<![a-z])(?:rank|shard|node|host|process|proc|rng_state|random_states)[-_.=]?(?P<rank>\d{1,6})(?![0-9a-z])"
    r"(?!-of-)",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(?<!\d)\d+-of-\d+|(?<![a-z])(?:part|layer|optimizer|optim|scheduler|custom_checkpoint)s?[-_.=]?\d+", re.IGNORECASE
)
_HALF_WRITTEN = re.compile(
    r"""~$ | ^\#.*\#$ | ^tmp(?!_trainer$)(?=.) | ^\.nfs[0-9a-f]+$ | ^\.~lock | ^\.fuse_hidden | ^\.goutputstream-
    | \.(?:tmp|temp|part|partial|incomplete|new|lock|crdownload|download|inprogress|sw[opx])$
    | \.tmp(?:[-_.\d][-\w.]*|\w{6,8})$ | \.tempstate\d+$ | -\d+_temp$ | \.orbax-checkpoint-tmp""",
    re.VERBOSE | re.IGNORECASE,
)
_VERSION = re.compile(r"-v\d+(?=\.ckpt$)")
_NUMBERS = re.compile(r"(?<==)-?(?:nan|inf)(?![a-z])|(?<==)-?\d+(?:\.\d+)*(?:e[-+]?\d+)?|\d+(?:\.\d+)*(?:e[-+]\d+)?")
NAMES_MAX = 10_000  # The same files are looked at again and again.


@lru_cache(maxsize=NAMES_MAX)
def step_in(path: str) -> NamedStep | None:
    """The step that a path relative to the checkpoint directory says, or None where no number in it is surely one."""
    parts, quiet = path.split("/"), _NOISE.sub(_blank, path).split("/")
    best: tuple[int, NamedStep] | None = None
    for index, part in enumerate(parts):
        for rank, step in _steps(part, quiet[index], index == len(parts) - 1):
            if best is None or rank < best[0]:
                best = rank, step
    return best[1] if best else None


@lru_cache(maxsize=NAMES_MAX)
def shard_of(path: str) -> int | None:
    """The number of the rank whose share this is, where the name says so; the parts of one writer's model are none."""
    for part in reversed(path.split("/")):
        found = _RANK.search(part)
        if found:
            return int(found.group("dcp") or found.group("rank"))
    return None


def is_share(path: str) -> bool:
    """Whether others of the same name with another number belong to the same save: the shares of ranks, and parts."""
    return shard_of(path) is not None or _PART.search(path) is not None


@lru_cache(maxsize=NAMES_MAX)
def shape_of(path: str) -> str:
    """The path with `#` for each number: files of the same shape are written again and again.

    Lightning's `last-v1.ckpt`, which a next attempt writes beside `last.ckpt`, is the same again.
    """
    return _NUMBERS.sub("#", _VERSION.sub("", path))


@lru_cache(maxsize=NAMES_MAX)
def half_written(name: str) -> bool:
    """Whether a file or directory of this name is surely not finished. A hidden file may be."""
    return _HALF_WRITTEN.search(name) is not None


def _blank(found: re.Match[str]) -> str:
    return "/".join("~" for _ in found.group().split("/"))


def _steps(part: str, quiet: str, last: bool) -> Iterator[tuple[int, NamedStep]]:
    """What one part of the path may say, with how surely. `quiet`: without what is not a step wherever it stands."""
    if "tfevents" in part:
        return
    framework = _HF.match(part) or _FAIRSEQ.match(part)
    if framework:
        yield STEP, NamedStep("step", int(framework.group("number")))
        return
    words = [(_rank(found), found) for found in _WORD.finditer(_unset(part))]
    words += [(COUNT_BEFORE, found) for found in _COUNT_BEFORE.finditer(_unset(quiet))]
    for rank, found in words:
        unit = next(unit for unit in UNITS if found.group(unit))
        yield rank, NamedStep(unit, int(found.group("number")) * MULTIPLES[(found.group("multiple") or "").lower()])
    if not words and not _SHARE.search(part):
        number = _bare(_unset(quiet), last)
        if number is not None:
            yield BARE, NamedStep("epoch" if _KERAS.search(part) else "", number)


def _rank(found: re.Match[str]) -> int:
    """A plural (`epochs100`) mostly says how many there will be."""
    return PLURAL if found.group("plural") else next(rank for unit, rank in UNITS.items() if found.group(unit))


def _unset(part: str) -> str:
    return _MODEL.sub(_blank, _SETTING.sub(_blank, part))


def _bare(part: str, last: bool) -> int | None:
    """The number without a word for its unit, if there is one only."""
    stem = _FLOAT.sub("~", _KEYED.sub("~", _ENDING.sub("", part) if last else part))
    patterns = [_CHECKPOINT_NUMBER, _FIRST_NUMBER, _MADE_NUMBER, _PADDED_NUMBER]
    for pattern in [*patterns, _LAST_NUMBER] if last else patterns:
        found = [each.group("number") for each in pattern.finditer(stem)]
        if found:
            alone = len(found) == 1 and (len(found[0]) <= DIGITS_MAX or found[0][0] == "0")
            return int(found[0]) if alone else None
    return None
