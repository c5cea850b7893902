"""Certificates of an authority of the tests' own, made by openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]


@dataclass(frozen=True)
class Certified:
    """A server's certificate and key, and the authority's certificate that vouches for it."""

    cert: Path
    key: Path
    ca: Path


def certified(place: Path, names: str = "IP:127.0.0.1,DNS:localhost") -> Certified:
    """A server's certificate that only who is told of our authority trusts."""
    ca, ca_key, cert, key, wish = (place / name for name in ("ca.pem", "ca.key", "cert.pem", "key.pem", "wish.pem"))
    more = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign,cRLSign")
    _openssl("req", "-x509", *KEY, "-subj", "/CN=our authority", *more, "-keyout", ca_key, "-out", ca)
    _openssl("req", "-new", *KEY[:-2], "-subj", "/CN=a server", "-keyout", key, "-out", wish)
    extensions = place / "extensions"
    extensions.write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
    signed = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile", extensions)
    _openssl("x509", "-req", "-in", wish, *signed, "-out", cert)
    return Certified(cert, key, ca)


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)
