"""Keras as it stands in its guides: BackupAndRestore to go on from, and ModelCheckpoint beside it."""

import argparse
import os

os.environ["KERAS_BACKEND"] = "torch"
import diary
import keras
import tensors

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--save-every", type=int, default=1)
parser.add_argument("--folder", default=".")
args = parser.parse_args()
keras.utils.set_random_seed(3)
data = tensors.Numbers()
inputs, targets = data.inputs.numpy(), data.targets.numpy()
model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")


def content():
    weights = [*model.weights, *model.optimizer.variables]
    return b"".join(keras.ops.convert_to_numpy(each).tobytes() for each in weights)


class Journal(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        diary.began(model._initial_epoch or 0, content())

    def on_epoch_end(self, epoch, logs=None):
        diary.saved(epoch + 1)
        diary.stepped(epoch + 1, content())


class Before(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        diary.saving(epoch + 1)


backup = keras.callbacks.BackupAndRestore(os.path.join(args.folder, "backup"), delete_checkpoint=False)
best = keras.callbacks.ModelCheckpoint(os.path.join(args.folder, "best.keras"), monitor="loss", save_best_only=True)
try:
    model.optimizer.build(model.trainable_variables)
    model.fit(inputs, targets, epochs=args.steps, batch_size=32, shuffle=False, verbose=2,
              callbacks=[Before(), best, backup, Journal()])  # fmt: skip
except (OSError, EOFError, KeyError, ValueError) as error:
    diary.torn(0, error)
    raise
diary.done(args.steps, content())
