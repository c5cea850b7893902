"""A Python with the libraries of a cloud and an emulator of its services over HTTP."""

from __future__ import annotations

from tests.real.pythons import python_with

PACKAGES = ("boto3>=1.43,<2", "moto[server]==5.2.1")


def cloud_python() -> str:
    return python_with(PACKAGES, "moto-5.2.1", 600)
