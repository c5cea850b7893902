"""Trainings with the real libraries and our helper for each: on one rank, on two of a node, and on two nodes."""

from __future__ import annotations

from dataclasses import replace

from tests.trainings.habits import Habit

PYTORCH = Habit("PyTorch with `Progress`", "with_pytorch.py", heeds=True)
WORKERS = Habit("PyTorch with `Progress`, workers that load", "with_pytorch.py", ("--workers", "2"), heeds=True)
ACCELERATE = Habit("Accelerate with `Progress`", "with_accelerate.py", heeds=True)
FSDP = Habit("FSDP with `Progress`", "with_fsdp.py", heeds=True)
LIGHTNING = Habit("Lightning with `HeadwayCallback`", "with_lightning.py", heeds=True)
KERAS = Habit("Keras with `HeadwayCallback`", "with_keras.py", heeds=True)
TRAINER = Habit("Hugging Face Trainer with `HeadwayCallback`", "with_huggingface.py", heeds=True)


def two_ranks(habit: Habit) -> Habit:
    return replace(habit, name=f"{habit.name}, two ranks of a node", ranks_per_node=2)


def two_nodes(habit: Habit) -> Habit:
    return replace(habit, name=f"{habit.name}, two nodes", nodes=2)


SEVERAL = (PYTORCH, ACCELERATE, FSDP, LIGHTNING, TRAINER)  # Keras trains on one rank, but for what one writes oneself.
ONE = [PYTORCH, WORKERS, ACCELERATE, LIGHTNING, KERAS, TRAINER]
ALL = [*ONE, *map(two_ranks, SEVERAL), *map(two_nodes, SEVERAL)]
# Each library once, and each arrangement: a part of `make test`.
SHORT = [KERAS, TRAINER, two_ranks(PYTORCH), two_ranks(ACCELERATE), two_ranks(LIGHTNING), two_nodes(FSDP)]
