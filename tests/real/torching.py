"""A Python with torch for CPUs and the libraries on top of it."""

from __future__ import annotations

from tests.real.pythons import python_with

VERSION = "2.13.0"
PACKAGES = (
    f"torch=={VERSION}", "numpy", "keras==3.15.1", "lightning==2.6.6", "transformers==5.22.2", "accelerate==1.15.0",
)  # fmt: skip
TENSORBOARD = (f"torch=={VERSION}", "tensorboard", "setuptools<81")


def torch_python() -> str:
    return python_with(PACKAGES, f"torch-{VERSION}", 1500)
