"""Which files of a job's working directory belong to its checkpoints, by the habits of frameworks and of people.

Pure: paths come in, relative to the directory, of what the job itself has written; patterns come out, of what to keep.
The looking is done in files/workdir.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Mapping, Pattern, Sequence

NAMES_MAX = 6  # Files of one folder and kind that are named one by one; more of them are named together: `out/*.pt`.
FOUND_MAX = 100
SHOWN_MAX = 3

# Folders in which nothing is looked for. What begins with a dot is one of them too.
SKIPPED = (
    *("__pycache__", "node_modules", "site-packages", "dist-packages", "venv", "virtualenv", "conda-meta", "build"),
    *("dist", "wandb", "mlruns", "catboost_info", "__MACOSX", "lost+found"),
)
# Folders of data: in them only what is named like a folder of checkpoints is looked at.
DATA = ("data", "dataset", "datasets", "raw", "processed", "cache", "caches", "corpus", "images")
# What is not a part of any checkpoint, wherever it lies: logs, half of something, and what Python leaves behind.
NEVER = re.compile(
    r"\.(log|pyc|pyo|lock|swp)$|^core(\.\d+)?$|tfevents|\.orbax-checkpoint-tmp|^\.nfs|^\.DS_Store$|^__pycache__$"
)


def _word(words: str, after: str = "") -> Pattern[str]:
    """One of these words as a name, with anything before it that ends in a sign: `my_checkpoints`."""
    return re.compile(rf"(.*[-_.])?({words}){after}", re.IGNORECASE)


PLACE = _word("checkpoints?|ckpts?|snapshots?|backups?|saves?|saved_models?|weights|models?")
SURE_PLACE = _word("checkpoints?|ckpts?|snapshots?")  # All that is in it belongs to checkpoints.
NUMBERED = _word(
    "global_?step|step|epoch|iter|iteration|ep|ba|round", r"[-_=]?\d+"
)  # One checkpoint, if a model is in it.
SURELY_NUMBERED = _word("checkpoint|ckpt|snapshot|global_?step", r"[-_=]?\d+")
# Small files by which a program finds its newest checkpoint.
POINTER = re.compile(
    r"(latest|last|newest|best)(_?checkpoint(ed_iteration)?)?(\.txt)?|checkpoint(\.txt)?", re.IGNORECASE
)
LIKE_STATE = _word(
    "checkpoint|ckpt|snapshot|resume|progress|states?|booster|epoch|steps?|iter(ation)?s?|last|latest|best|model"
    "|weights|params|backup|rng",
    r"[-_.=]?\w*",
)
STATE = _word("checkpoint|ckpt|snapshot|resume|progress|state|booster", r"[-_.=]?\d*")
OF_DATA = _word(r"data(set)?|features?|embeddings?|cache[ds]?|vocab|tokens?|predictions?", r"([-_.].*)?")
# Written by the job beside a checkpoint, such files are a part of it: without them it would go on with half its state.
COMPANIONS = (".json", ".yaml", ".yml", ".toml", ".npy", ".npz", ".bin", ".pkl", ".pickle")
DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class FoundHabit:
    """What is kept, as a pattern of paths (a folder with all that is in it), and whose habit it is."""

    pattern: str
    framework: str


# --- folders by what is in them: a path, the framework, and what is kept then. `#` is a name with its numbers as `*`.

HUGGING_FACE = "Hugging Face Trainer"
LIGHTNING = "Lightning"
_TOP, _NAME = r"(?P<top>(?:.*/)?)", r"(?P<name>[^/]+)/"
_ORBAX = r"(_METADATA|_CHECKPOINT_METADATA|manifest\.ocdbt|orbax\.checkpoint)"
MARKS: Sequence[tuple[str, str, Sequence[str]]] = (
    (
        HUGGING_FACE,
        _TOP + r"checkpoint-\d+/(trainer_state\.json|training_args\.bin|(optimizer|scheduler)\.pt|rng_state.*\.pth"
        r"|(adapter_)?model.*\.safetensors|pytorch_model.*\.bin|config\.json)",
        ("{top}checkpoint-*",),
    ),
    ("Accelerate", _TOP + _NAME + r"random_states_\d+\.pkl", ("{top}{#}",)),
    ("DeepSpeed", _TOP + r"global_step\d+/.+", ("{top}global_step*", "{top}latest")),
    (
        LIGHTNING,
        _TOP + r"version_\d+/checkpoints/.+",
        ("{top}version_*/checkpoints", "{top}version_*/hparams.yaml"),
    ),
    (LIGHTNING, _TOP + r"((epoch=\d+.*|last(-v\d+)?|hpc_ckpt_\d+)\.ckpt)(/.+)?", ("{top}*.ckpt",)),
    (
        "Ultralytics",
        _TOP + r"weights/(last|best|epoch\d+)\.pt",
        ("{top}weights/*.pt", "{top}args.yaml", "{top}results.csv"),
    ),
    ("PyTorch distributed checkpoint", _TOP + _NAME + r"(\.metadata|__\d+_\d+\.distcp)", ("{top}{#}",)),
    ("PyTorch distributed checkpoint", r"(?P<top>)(\.metadata|__\d+_\d+\.distcp)", (".metadata", "__*_*.distcp")),
    (
        "Orbax",
        r"(?P<top>(?:[^/]*/)*?)(?P<name>[^/]*\d[^/]*)/(.*/)?" + _ORBAX,
        ("{top}{#}",),
    ),
    ("Orbax", _TOP + _NAME + _ORBAX, ("{top}{name}",)),
    (
        "TensorFlow",
        _TOP + r"(?P<name>[^/]+)\.data-\d{5}-of-\d{5}",
        ("{top}{#}.index", "{top}{#}.data-*", "{top}checkpoint"),
    ),
    (
        "Keras BackupAndRestore",
        _TOP + r"_?(latest\.weights\.h5|training_metadata\.json)",
        tuple("{top}" + name for name in ("*latest.weights.h5", "*training_metadata.json")),
    ),
    ("Megatron", _TOP + r"latest_checkpointed_iteration\.txt", ("{top}latest_checkpointed_iteration.txt",)),
)
_MARKS = tuple((framework, re.compile(mark), kept) for framework, mark, kept in MARKS)
FOLDERS = "folders of checkpoints"

# --- single files by how their names end; those with a pattern only where the rest of the name fits it.

ENDS: Mapping[str, tuple[str, Pattern[str] | None]] = {
    ".pt": ("PyTorch", None),
    ".pth": ("PyTorch", None),
    ".ckpt": ("PyTorch", None),
    ".pth.tar": ("PyTorch", None),
    ".pt.tar": ("PyTorch", None),
    ".ckpt.tar": ("PyTorch", None),
    ".tar": ("PyTorch", LIKE_STATE),
    ".bin": ("PyTorch", re.compile(r"((pytorch|adapter)_)?(model|optimizer|scheduler|sampler).*", re.IGNORECASE)),
    ".safetensors": ("safetensors", None),
    ".keras": ("Keras", None),
    ".h5": ("Keras", None),
    ".hdf5": ("Keras", None),
    ".msgpack": ("Flax", None),
    ".pkl": ("pickle", None),
    ".pickle": ("pickle", None),
    ".dill": ("pickle", None),
    ".joblib": ("joblib", None),
    ".npz": ("NumPy", LIKE_STATE),
    ".npy": ("NumPy", LIKE_STATE),
    ".ubj": ("XGBoost", None),
    ".xgb": ("XGBoost", None),
    ".lgb": ("LightGBM", None),
    ".cbm": ("CatBoost", None),
    ".model": ("XGBoost", None),
    ".pdparams": ("Paddle", None),
    ".pdopt": ("Paddle", None),
    ".pdstates": ("Paddle", None),
    ".zip": ("Stable-Baselines3", re.compile(r"(.*_)?model.*|.*_steps", re.IGNORECASE)),
    ".json": ("a file of its state", re.compile(rf"{STATE.pattern}|(xgb|lgb)\w*|model([-_]?\d+)?", re.IGNORECASE)),
    ".yaml": ("a file of its state", STATE),
    ".yml": ("a file of its state", STATE),
    ".txt": ("a file of its state", _word("checkpoint|ckpt|snapshot|resume|booster", r"[-_.=]?\d*")),
}
_ENDS_BY_LENGTH = tuple(sorted(ENDS, key=len, reverse=True))


def found_in(paths: Iterable[str]) -> list[FoundHabit]:
    """What to keep of a directory in which a job has written these files. The order of frameworks is that of MARKS."""
    given = sorted({path for path in paths if not is_never(path)})
    found: dict[str, str] = {}
    for framework, mark, kept in _MARKS:
        for path in given:
            match = mark.fullmatch(path)
            if match is not None and len(found) < FOUND_MAX and not _covered(path, found):
                for each in kept:
                    found.setdefault(_filled(each, match.groupdict()), framework)
    sure = {folder for folder, is_sure in map(_folder_of, given) if is_sure}
    sure |= {_folder_of(path)[0] for path in given if framework_of(path)}
    for folder in sorted(sure - {""})[:FOUND_MAX]:
        if not _covered(folder, found):
            found[folder] = FOLDERS
    found.update(_together([path for path in given if not _covered(path, found) and framework_of(path)]))
    found.update(_beside(given, found))
    if len(found) > FOUND_MAX:  # Folders with numbers: all of them together.
        found = {"/".join(map(_starred, pattern.split("/"))): framework for pattern, framework in found.items()}
    few = dict(list(found.items())[:FOUND_MAX])
    return [FoundHabit(*each) for each in few.items() if not _covered_by_another(each[0], few)]


def is_kept(path: str, found: Iterable[FoundHabit]) -> bool:
    return not is_never(path) and any(_regex(each.pattern).fullmatch(path) for each in found)


def is_never(path: str) -> bool:
    return any(NEVER.search(part) for part in path.split("/"))


def is_skipped(path: str) -> bool:
    """Whether nothing is looked for below this folder."""
    above, _, name = path.rpartition("/")
    if name.startswith(".") or name in SKIPPED or name.endswith(".egg-info") or NEVER.search(name):
        return True
    return _is_data(above) and not _is_data_kept(path)


def may_matter(path: str) -> bool:
    """Whether a file could be kept by its name, at first sight; `found_in` says whether it is."""
    name = path.rpartition("/")[2]
    return not is_never(path) and bool(
        name.lower().endswith(COMPANIONS)
        or framework_of(path)
        or POINTER.fullmatch(name)
        or _folder_of(path)[0]
        or mark_of(path)
    )


def mark_of(path: str) -> str:
    """The framework that names its files so; empty where none does."""
    return next((framework for framework, mark, _ in _MARKS if mark.fullmatch(path)), "")


def framework_of(path: str) -> str:
    """Whose single file it is, by its name; empty for what is not a checkpoint."""
    above, _, name = path.rpartition("/")
    if _is_data(above) and not _is_data_kept(above):
        return ""
    end = _end_of(name)
    framework, wanted = ENDS.get(end, ("", None))
    rest = name[: len(name) - len(end)]
    if wanted is None:
        return "" if OF_DATA.fullmatch(rest) else framework
    return framework if wanted.fullmatch(rest) else ""


def sentence(found: Iterable[FoundHabit]) -> str:
    """What is kept and why, for people: `outputs/checkpoint-*, found as Hugging Face Trainer`."""
    by_framework: dict[str, list[str]] = {}
    for each in found:
        by_framework.setdefault(each.framework, []).append(each.pattern)
    said = []
    for framework, patterns in by_framework.items():
        more = f" and {len(patterns) - SHOWN_MAX} more" if len(patterns) > SHOWN_MAX else ""
        said.append(f"{', '.join(patterns[:SHOWN_MAX])}{more}, found as {framework}")
    return "; ".join(said)


def _folder_of(path: str) -> tuple[str, bool]:
    """The pattern of the folder around this file that is named like a checkpoint, and whether that alone is enough."""
    parts = path.split("/")[:-1]
    for number, part in enumerate(parts):
        above = "/".join(parts[:number])
        inside = f"{above}/" if above else ""
        if SURELY_NUMBERED.fullmatch(part):
            return inside + _starred(part), True
        place = above.rpartition("/")[2]
        if NUMBERED.fullmatch(part) or (part.isdigit() and PLACE.fullmatch(place)):
            return inside + _starred(part), bool(SURE_PLACE.fullmatch(place))
        if SURE_PLACE.fullmatch(part) and not any(map(_is_numbered, parts[number + 1 :])):
            return inside + part, True
    return "", False


def _is_numbered(name: str) -> bool:
    return bool(NUMBERED.fullmatch(name) or SURELY_NUMBERED.fullmatch(name)) or name.isdigit()


def _is_data(folder: str) -> bool:
    return any(part.lower() in DATA for part in folder.split("/"))


def _is_data_kept(folder: str) -> bool:
    return any(PLACE.fullmatch(part) or _is_numbered(part) for part in folder.split("/"))


def _end_of(name: str) -> str:
    small = name.lower()
    if not small.endswith(_ENDS_BY_LENGTH):
        return ""
    return next((end for end in _ENDS_BY_LENGTH if small.endswith(end) and len(name) > len(end)), "")


def _together(paths: Iterable[str]) -> dict[str, str]:
    """Patterns of single files, their numbers as `*`; many of one kind in one folder become one pattern."""
    by_kind: dict[tuple[str, str, str], set[str]] = {}
    for path in paths:
        above, _, name = path.rpartition("/")
        by_kind.setdefault((above, _end_of(name), framework_of(path)), set()).add(_starred(name))
    found = {}
    for (above, end, framework), names in by_kind.items():
        for name in sorted(names) if len(names) <= NAMES_MAX else [f"*{end}"]:
            found[f"{above}/{name}" if above else name] = framework
    return found


def _beside(paths: Iterable[str], found: Mapping[str, str]) -> dict[str, str]:
    """The small files in the folders of what was found."""
    folders = {pattern.rpartition("/")[0]: framework for pattern, framework in reversed(list(found.items()))}
    more = {}
    for path in paths:
        above, _, name = path.rpartition("/")
        companion = name.lower().endswith(COMPANIONS) and not OF_DATA.fullmatch(name)
        if above in folders and (companion or POINTER.fullmatch(name)) and not _covered(path, found):
            more[f"{above}/{_starred(name)}" if above else _starred(name)] = folders[above]
    return more


def _covered(path: str, found: Iterable[str]) -> bool:
    return any(_regex(pattern).fullmatch(path) for pattern in found)


def _covered_by_another(pattern: str, found: Iterable[str]) -> bool:
    return _covered(pattern, [each for each in found if each != pattern])


def _filled(pattern: str, groups: Mapping[str, str]) -> str:
    name = groups.get("name") or ""
    return pattern.replace("{top}", groups["top"]).replace("{name}", name).replace("{#}", _starred(name))


def _starred(name: str) -> str:
    """A name with its numbers as `*`, except at its end (`.h5`). One that is only a number keeps that much."""
    end = _end_of(name)
    return "[0-9]*" if name.isdigit() else DIGITS.sub("*", name[: len(name) - len(end)]) + end


@lru_cache(maxsize=512)
def _regex(pattern: str) -> Pattern[str]:
    escaped = re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\[0\-9\]", "[0-9]")
    return re.compile(escaped + "(/.*)?", re.DOTALL)
