"""The Trainer of Hugging Face as it stands in its examples: the newest checkpoint in its folder is gone on from."""

import argparse
import os

import diary
import tensors
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--output-dir", default="outputs")
args = parser.parse_args()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = tensors.network()

    def forward(self, inputs, labels):
        predicted = self.layers(inputs)
        return {"loss": nn.functional.mse_loss(predicted, labels), "logits": predicted}


class Journal(TrainerCallback):
    def on_train_begin(self, args, state, control, model=None, **kwargs):
        diary.began(state.global_step, tensors.content(model))

    def on_step_end(self, args, state, control, model=None, **kwargs):
        diary.stepped(state.global_step, tensors.content(model))

    def on_save(self, args, state, control, **kwargs):
        diary.saved(state.global_step)


class Noted(Trainer):
    def _save_checkpoint(self, *args, **kwargs):
        diary.saving(self.state.global_step)
        super()._save_checkpoint(*args, **kwargs)


data = tensors.Numbers()
rows = [{"inputs": inputs, "labels": targets} for inputs, targets in data]
settings = TrainingArguments(
    output_dir=args.output_dir, max_steps=args.steps, save_steps=args.save_every, save_total_limit=2,
    logging_steps=10, per_device_train_batch_size=32, learning_rate=1e-3, report_to=[], use_cpu=True, seed=3,
)  # fmt: skip
trainer = Noted(model=Model(), args=settings, train_dataset=rows, callbacks=[Journal()])
last = get_last_checkpoint(args.output_dir) if os.path.isdir(args.output_dir) else None
try:
    trainer.train(resume_from_checkpoint=last)
except (OSError, EOFError, RuntimeError, ValueError) as error:
    diary.torn(0, error)
    raise
diary.done(trainer.state.global_step, tensors.content(trainer.model))
