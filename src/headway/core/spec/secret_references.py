"""References to secrets that are kept elsewhere: how one is written, and which of them a project may have. Pure.

The server reads them with its own credentials, so whoever could name any place would read all that the server can. An
admin of the server says where the secrets of a project may lie; nothing is allowed that nobody has named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headway.core.errors import BadInput

SCHEMES = {
    "aws": "AWS Secrets Manager: aws://REGION/NAME, with #KEY for one key of a JSON value",
    "gcp": "GCP Secret Manager: gcp://PROJECT/NAME, with /VERSION for one that is not the latest",
    "azure": "Azure Key Vault: azure://VAULT/NAME, with /VERSION for one that is not the latest",
    "vault": "HashiCorp Vault, a KV engine of version 2: vault://MOUNT/PATH#KEY",
}
# A place and the names in it, as each service has them: nothing that would lead out of an address made of them.
PLACES = {
    "aws": re.compile(r"[a-z]{2}[a-z0-9-]{2,30}(/[A-Za-z0-9_+=.@:-]+)+"),
    "gcp": re.compile(r"[a-z0-9][a-z0-9.:-]{2,60}/[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)?"),
    "azure": re.compile(r"[A-Za-z][A-Za-z0-9-]{1,22}[A-Za-z0-9]/[A-Za-z0-9-]+(/[A-Za-z0-9]+)?"),
    "vault": re.compile(r"[A-Za-z0-9_.-]+(/[^/?#%\\\x00-\x1f\x7f]+)+"),
}
REFERENCE_MAX = 500
ALLOWED_MOST = 100


def check_reference(reference: object) -> str:
    """A reference that leads where it says, or BadInput."""
    scheme, found, rest = str(reference).partition("://")
    if not isinstance(reference, str) or scheme not in SCHEMES or not found or len(reference) > REFERENCE_MAX:
        raise _no_reference(reference)
    place, _, key = rest.partition("#")
    if not PLACES[scheme].fullmatch(place) or {".", ".."} & set(place.split("/")) or not place.isprintable():
        raise _no_reference(reference)
    if scheme == "vault" and not key:
        raise BadInput(f'"{reference[:80]}" names no key', SCHEMES[scheme])
    return reference


def _no_reference(reference: object) -> BadInput:
    return BadInput(f'"{str(reference)[:80]}" is not a reference to a secret', "; ".join(SCHEMES.values()))


def check_allowed(raw: object) -> tuple[str, ...]:
    """What an admin allows: a place and all below it (`…/`), all that begin so (`…*`), or one very reference."""
    if not isinstance(raw, list | tuple) or len(raw) > ALLOWED_MOST:
        raise BadInput(f"references: expected a list of at most {ALLOWED_MOST}")
    for each in raw:
        scheme, found, rest = str(each).partition("://")
        right = isinstance(each, str) and scheme in SCHEMES and found and each.isprintable() and " " not in each
        if not right or len(each) > REFERENCE_MAX or {".", ".."} & set(rest.split("/")) or "*" in each[:-1]:
            hint = (
                "vault://kv/vision/ for all below it, aws://eu-west-1/vision-* for all that begin so, or one reference"
            )
            raise BadInput(f'references: "{str(each)[:80]}" is none that can be allowed', hint)
    return tuple(dict.fromkeys(raw))


def is_allowed(reference: str, allowed: Sequence[str]) -> bool:
    """Whether a project for which these were allowed may have this reference."""
    place = reference.partition("#")[0]
    return any(
        reference.startswith(each.removesuffix("*")) if each.endswith(("/", "*")) else each in (reference, place)
        for each in allowed
    )


def why_not(reference: str, project: str) -> tuple[str, str]:
    """What whoever wants it is told, and what to do."""
    place = reference.partition("#")[0]
    said = f'"{reference[:80]}" is none of the references that project "{project}" may have'
    return said, f"an admin of the server allows it: headway project references {project} --allow {place}"
