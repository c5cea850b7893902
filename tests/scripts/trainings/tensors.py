"""A small network and data for it, the same in every process, and its state as bytes for the journal."""

import torch
from torch import nn
from torch.utils.data import Dataset

torch.set_num_threads(1)


class Numbers(Dataset):
    def __init__(self, size=256):
        chance = torch.Generator().manual_seed(11)
        self.inputs = torch.randn(size, 20, generator=chance)
        self.targets = self.inputs[:, :1] * 0.5 + torch.randn(size, 1, generator=chance) * 0.1

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


def network():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))


def batch_of(data, step, size=32):
    """The batch of a step, by its number alone."""
    chosen = torch.randperm(len(data), generator=torch.Generator().manual_seed(step))[:size]
    return data.inputs[chosen], data.targets[chosen]


def content(model, optimizer=None):
    """All that is trained as bytes."""
    parts = [tensor.detach().cpu().contiguous().numpy().tobytes() for tensor in model.state_dict().values()]
    for state in optimizer.state_dict()["state"].values() if optimizer else ():
        parts += [value.contiguous().numpy().tobytes() for value in state.values() if torch.is_tensor(value)]
    return b"".join(parts)
