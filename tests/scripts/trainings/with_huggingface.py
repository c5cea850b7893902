"""The Hugging Face Trainer with headway.training.huggingface.HeadwayCallback, on one rank or several."""

import diary
import pupil
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from headway.training.huggingface import HeadwayCallback, directory, resume_path

args = pupil.arguments()


class Pupil(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = pupil.network()

    def forward(self, x, y):
        return {"loss": torch.nn.functional.mse_loss(self.inner(x), y)}


class Diary(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        diary.began(state.global_step, pupil.content(model.inner))

    def on_step_end(self, args, state, control, **kwargs):
        if pupil.RANK == 0:
            print(f"step {state.global_step}", flush=True)
        diary.stepped(state.global_step, pupil.content(model.inner))


class Noted(HeadwayCallback):
    def on_save(self, args, state, control, **kwargs):
        super().on_save(args, state, control, **kwargs)
        diary.saved(state.global_step)
        return control


# Noise that is drawn as a batch is read would not be the same: the Trainer restores chance after its first batch.
rows = pupil.Noisy(noise=0)
data = [{"x": rows[number][0], "y": rows[number][1]} for number in range(len(rows))]
settings = TrainingArguments(
    output_dir=directory(), per_device_train_batch_size=pupil.BATCH, num_train_epochs=args.epochs, use_cpu=True,
    save_steps=args.save_every, save_total_limit=3, logging_steps=5, report_to=[], disable_tqdm=True, seed=pupil.SEED,
    remove_unused_columns=False, optim="sgd", learning_rate=0.01, dataloader_num_workers=args.workers,
)  # fmt: skip
model = Pupil()
trainer = Trainer(model=model, args=settings, train_dataset=data, callbacks=[Diary(), Noted()])
pupil.own_chance()
trainer.train(resume_from_checkpoint=resume_path())
if trainer.state.global_step == args.epochs * pupil.BATCHES:
    diary.done(trainer.state.global_step, pupil.content(model.inner))
