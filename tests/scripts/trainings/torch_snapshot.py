"""The snapshot script of the tutorials for several GPUs: rank 0 writes one snapshot over itself, all ranks load it."""

import argparse
import os

import diary
import tensors
import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, model, train_data, optimizer, save_every, snapshot_path):
        self.local_rank, self.global_rank = int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"])
        self.model, self.train_data, self.optimizer = model, train_data, optimizer
        self.save_every, self.snapshot_path, self.epochs_run = save_every, snapshot_path, 0
        if os.path.exists(snapshot_path):
            print("Loading snapshot")
            self._load_snapshot(snapshot_path)
        self.model = DistributedDataParallel(self.model)

    def _load_snapshot(self, snapshot_path):
        try:
            snapshot = torch.load(snapshot_path, map_location="cpu")
        except Exception as error:
            diary.torn(0, error)
            raise
        self.model.load_state_dict(snapshot["MODEL_STATE"])
        self.epochs_run = snapshot["EPOCHS_RUN"]
        print(f"Resuming training from snapshot at Epoch {self.epochs_run}", flush=True)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        mse_loss(self.model(source), targets).backward()
        self.optimizer.step()

    def _run_epoch(self, epoch):
        print(f"[GPU{self.global_rank}] Epoch {epoch} | Batchsize: 32 | Steps: {len(self.train_data)}", flush=True)
        self.train_data.sampler.set_epoch(epoch)
        for source, targets in self.train_data:
            self._run_batch(source, targets)

    def _save_snapshot(self, epoch):
        diary.saving(epoch + 1)
        snapshot = {"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}
        torch.save(snapshot, self.snapshot_path)
        diary.saved(epoch + 1)
        print(f"Epoch {epoch} | Training snapshot saved at {self.snapshot_path}", flush=True)

    def train(self, max_epochs):
        diary.began(self.epochs_run, tensors.content(self.model.module))
        for epoch in range(self.epochs_run, max_epochs):
            self._run_epoch(epoch)
            diary.stepped(epoch + 1, tensors.content(self.model.module))
            if self.global_rank == 0 and (epoch + 1) % self.save_every == 0:
                self._save_snapshot(epoch)
        diary.done(max_epochs, tensors.content(self.model.module))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--save-every", type=int, default=5)
parser.add_argument("--snapshot-path", default="snapshot.pt")
args = parser.parse_args()
os.makedirs(os.path.dirname(os.path.abspath(args.snapshot_path)), exist_ok=True)
init_process_group(backend="gloo")
model = tensors.network()
data = tensors.Numbers()
loader = DataLoader(data, batch_size=32, shuffle=False, sampler=DistributedSampler(data))
Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=1e-2), args.save_every, args.snapshot_path).train(
    args.steps
)
destroy_process_group()
