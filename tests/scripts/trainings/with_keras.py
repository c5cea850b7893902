"""Keras on torch, with headway.training.keras.HeadwayCallback."""

import diary
import pupil  # Sets the backend before Keras is loaded.

import keras  # isort: skip

from headway.training.keras import HeadwayCallback, resume

args = pupil.arguments()


def build():
    keras.utils.set_random_seed(pupil.SEED)
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.2), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.layers.Input((8,)), *layers, keras.layers.Dense(1)])
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 20, 0.9)
    model.compile(optimizer=keras.optimizers.Adam(rate), loss="mse", metrics=["mae"])
    return model


def weights():
    return b"".join(each.tobytes() for each in model.get_weights())


class Diary(keras.callbacks.Callback):
    """Skipped batches change nothing, and are not steps."""

    def on_train_begin(self, logs=None):
        self.step = int(self.model.optimizer.iterations)
        diary.began(self.step, weights())

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) > self.step:
            self.step += 1
            print(f"step {self.step} | loss {logs['loss']:.6f}", flush=True)
            diary.stepped(self.step, weights())


class Noted(HeadwayCallback):
    def _save(self, *place):
        step = self._done
        if step != self._saved:
            diary.saving(step)
            super()._save(*place)
            diary.saved(step)


data = pupil.Noisy(ranks=1, noise=0)
inputs, wanted = data.rows.numpy(), data.rows.mean(1, keepdim=True).numpy()
model, first = resume(build)
ours = Noted(save_every_steps=args.save_every)
told = model.fit(
    inputs, wanted, batch_size=pupil.BATCH, epochs=args.epochs, initial_epoch=first, verbose=0,
    validation_data=(inputs[:8], wanted[:8]), callbacks=[Diary(), ours],
)  # fmt: skip
step = int(model.optimizer.iterations)
if step == args.epochs * pupil.BATCHES:
    logs = repr({name: values[-1] for name, values in sorted(told.history.items())}).encode()
    diary.done(step, weights() + logs)
