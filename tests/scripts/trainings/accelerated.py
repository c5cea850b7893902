"""Accelerate: save_state into its own numbered folders, load_state of the newest."""

import argparse
import os

import diary
import tensors
import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--folder", default="outputs")
args = parser.parse_args()


class Progress:
    step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


project = ProjectConfiguration(project_dir=args.folder, automatic_checkpoint_naming=True, total_limit=3)
accelerator = Accelerator(cpu=True, project_config=project)
model, progress = tensors.network(), Progress()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(tensors.Numbers(), batch_size=32, shuffle=False)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
accelerator.register_for_checkpointing(progress)
try:
    folder = os.path.join(args.folder, "checkpoints")
    if os.path.isdir(folder) and os.listdir(folder):
        accelerator.load_state()
        newest = max(int(name.split("_")[-1]) for name in os.listdir(folder))
        accelerator.project_configuration.iteration = newest + 1
except Exception as error:
    diary.torn(0, error)
    raise
diary.began(progress.step, tensors.content(model, optimizer))
while progress.step < args.steps:
    for source, targets in accelerator.skip_first_batches(loader, progress.step % len(loader)):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(source), targets)
        accelerator.backward(loss)
        optimizer.step()
        progress.step += 1
        diary.stepped(progress.step, tensors.content(model, optimizer))
        accelerator.print(f"step {progress.step} loss {loss.item():.4f}", flush=True)
        if progress.step % args.save_every == 0:
            diary.saving(progress.step)
            accelerator.save_state()
            diary.saved(progress.step)
        if progress.step >= args.steps:
            break
diary.done(progress.step, tensors.content(model, optimizer))
