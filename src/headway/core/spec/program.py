"""The words of a job's description that keep its progress: code, data, parameters, checkpoints, retries, limits.

Held in `JobSpec.progress`; job.py has all other words. What is inside a word is in program_words.py; what a word means
for a running job is told in docs/explanation/keeping-progress.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from headway.core.spec import program_words as inside
from headway.core.spec import words
from headway.core.spec.metric_rules import RULE, MetricRule, read_rules, show_rules
from headway.core.spec.program_words import (
    CheckpointPolicy,
    Environment,
    Input,
    Limits,
    LogPolicy,
    Pairs,
    ResumeFrom,
    RetryPolicy,
    Value,
)
from headway.core.spec.secrets import SecretUse, read_uses
from headway.core.spec.words import PAIRS, TEXT, Flag, Travel, array

word = partial(words.word, empty=True)


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    bundle: str = word(
        "",
        key="bundle",
        says="the digest of the uploaded code; without one, the job runs in place",
        read=inside.read_digest,
        travels=Travel("bundle"),
    )
    subdir: str = word(
        "",
        key="subdir",
        says="the directory of the bundle in which the command runs",
        read=inside.inner_path,
        travels=Travel("subdir"),
    )
    environment: Environment | None = word(
        None,
        key="environment",
        says="what the packages are made from: kind, path, digest",
        read=inside.read_environment,
        show=inside.show_environment,
        schema=inside.ENVIRONMENT,
        travels=Travel("environment", inside.show_environment),
    )
    inputs: tuple[Input, ...] = word(
        (),
        key="inputs",
        says="data to fetch once per node, by name: a URL or a path",
        read=inside.read_inputs,
        show=inside.show_inputs,
        schema={"type": "object", "additionalProperties": {"anyOf": [TEXT, inside.INPUT]}},
        flags=(Flag("--input", "Data to fetch once per node.", metavar="NAME=URL", type="pairs", many=True),),
        travels=Travel("inputs", inside.tell_inputs),
    )
    volumes: Pairs = word(
        (),
        key="volumes",
        says="directories that are mounted already, by name",
        read=inside.read_volumes,
        show=inside.show_pairs,
        schema=PAIRS,
        flags=(Flag("--volume", "Directory that is already mounted.", metavar="NAME=PATH", type="pairs", many=True),),
        travels=Travel("volumes", inside.show_pairs),
    )
    params: tuple[tuple[str, Value], ...] = word(
        (),
        key="params",
        says="parameters by name; they replace --name in the command",
        read=inside.read_params,
        show=inside.show_pairs,
        schema={"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
        flags=(Flag("--param", "Parameter; replaces --K in the command.", metavar="K=V", type="pairs", many=True),),
        travels=Travel("params", inside.show_pairs),
    )
    seed: int | None = word(  # Nodes are told one that a job without it has too: see params.py.
        None,
        key="seed",
        says="random seed; derived from the job's id when left out",
        read=inside.read_seed,
        schema={"type": ["integer", "null"], "minimum": 0},
        flags=(Flag("--seed", "Random seed. [default: one of its own]", type="int"),),
    )
    stdin: str = word(
        "",
        key="stdin",
        says="text that each of its ranks reads on standard input, at most 64 KiB",
        read=inside.read_stdin,
        schema=TEXT,
        travels=Travel("stdin"),
    )
    checkpoint: CheckpointPolicy = word(
        CheckpointPolicy(),
        key="checkpoint",
        says="which checkpoints are kept, where and by whom they are saved, how a finished one is recognised",
        read=inside.read_checkpoint,
        show=inside.show_checkpoint,
        schema=inside.CHECKPOINT,
        flags=(
            Flag(
                "--checkpoint-keep",
                "How many checkpoints to keep. [default: 3]",
                metavar="N",
                type="int",
                inner="keep_last",
            ),
            Flag(
                "--checkpoint-dir",
                "Where it saves, if not in HEADWAY_CHECKPOINT_DIR.",
                metavar="DIR",
                inner="dir",
                many=True,
            ),
            Flag("--saved-by", "Which nodes save. [default: auto]", inner="saved_by", choices=inside.SAVED_BY),
        ),
        travels=Travel("checkpoint", inside.tell_checkpoint, always=True),
    )
    outputs: tuple[str, ...] = word(
        (),
        key="outputs",
        says="directories whose files are kept as artifacts",
        read=inside.read_outputs,
        show=inside.show_list,
        schema=array(TEXT),
        flags=(Flag("--outputs", "Keep the files written there as artifacts.", metavar="DIR", many=True, adds=True),),
        travels=Travel("outputs", inside.show_list),
    )
    signal: str = word(
        "SIGTERM",
        key="notice",
        says="signal and grace with which ranks are told that the end is near",
        read=inside.read_signal,
        show=inside.show_notice,
        schema=inside.NOTICE,
        flags=(
            Flag(
                "--notice-signal",
                "Signal that tells a rank to save. [default: SIGTERM]",
                metavar="SIGNAL",
                inner="signal",
            ),
        ),
        travels=Travel("notice_signal", always=True),
    )
    again: RetryPolicy = word(
        RetryPolicy(),
        key="retry",
        says="budgets and exit codes for trying again",
        read=inside.read_retry,
        show=inside.show_retry,
        schema=inside.RETRY,
        flags=(
            Flag(
                "--max-losses",
                "Give up after so many lost machines without a new step. [default: 20]",
                metavar="N",
                type="int",
                inner="platform_max",
            ),
            Flag(
                "--max-losses-per-day",
                "Give up after so many lost machines in a day.",
                metavar="N",
                type="int",
                inner="platform_max_per_day",
            ),
        ),
    )
    log_policies: tuple[LogPolicy, ...] = word(
        (),
        key="log_policies",
        says="what a line in the log means: pattern, label, action",
        read=inside.read_policies,
        show=inside.show_policies,
        schema=array(inside.POLICY),
        travels=Travel("log_policies", inside.show_policies),
    )
    metrics: tuple[MetricRule, ...] = word(
        (),
        key="metrics",
        says="metrics to look for in the output: name, and a regular expression whose first group is the value",
        read=read_rules,
        show=show_rules,
        schema=array(RULE),
        travels=Travel("metrics", show_rules),
    )
    limits: Limits = word(
        Limits(),
        key="limits",
        says="open_files, output, stalled_after, pending, pin_cpus",
        read=inside.read_limits,
        show=inside.show_limits,
        schema=inside.LIMITS,
        flags=(
            Flag(
                "--stalled-after",
                "End it after so long without output or progress.",
                metavar="TIME",
                inner="stalled_after",
            ),
            Flag("--pending-max", "Time limit in the queue.", metavar="TIME", inner="pending"),
        ),
        travels=Travel("limits", inside.tell_limits),
    )
    resume_from: ResumeFrom | None = word(
        None,
        key="resume_from",
        says="a checkpoint of another job to begin from: job, step",
        read=inside.read_resume,
        show=inside.show_resume,
        schema=inside.RESUME,
    )
    secrets: tuple[SecretUse, ...] = word(
        (),
        key="secrets",
        says="secrets of the project that the ranks get: a variable for each, with its name",
        read=read_uses,
        show=inside.show_secrets,
        schema=inside.SECRETS,
        flags=(
            Flag("--secret", "Secret as an environment variable.", metavar="VAR=NAME", type="pairs", many=True),
            Flag("--secret-file", "The same, as a file.", metavar="VAR=NAME", type="pairs", many=True),
        ),
        travels=Travel("secrets", inside.tell_secrets),
    )
    stay_s: float = word(  # How long its place is kept for a look after it has failed.
        0.0,
        key="on_failure",
        says="hold: how long its place is kept after a failure, for a look, such as 30m",
        read=inside.read_stay,
        show=inside.show_stay,
        schema={"anyOf": [inside.ON_FAILURE, TEXT]},
        flags=(Flag("--hold-on-failure", "Keep its place this long after a failure.", metavar="TIME", inner="hold"),),
        travels=Travel("stay", inside.tell_stay),
    )


PLAIN = ProgramSpec()
