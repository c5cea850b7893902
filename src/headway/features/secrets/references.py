"""Secrets that are kept elsewhere: a reference is resolved when a job needs the value, and the value is not kept.

Each cloud's own library is loaded with its first use, with the credentials that the server's environment gives it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from headway.core.errors import BadInput, NotFound, OperatorError, Unavailable
from headway.core.spec.secret_references import check_reference

CONNECT_S_MAX = 10.0
ANSWER_S_MAX = 20.0


def resolve(reference: str) -> str:
    """The value that a reference stands for. One that was kept before it was checked so is refused now."""
    try:
        check_reference(reference)
    except BadInput as problem:
        raise NotFound(problem.message, problem.hint) from None
    scheme, _, rest = reference.partition("://")
    place, _, key = rest.partition("#")
    try:
        value = RESOLVERS[scheme](place)
    except (OperatorError, NotFound):
        raise
    except ImportError as error:
        needs = f'pip install "headway[{EXTRAS[scheme]}]" on the server'
        raise OperatorError(f"{reference}: {error.name} is not installed", needs) from None
    except Exception as error:
        # Other people's errors, of many kinds. Their text may be long, but has no value of the secret in it.
        raise Unavailable(f"{reference} cannot be read: {type(error).__name__}: {str(error)[:200]}") from error
    return _picked(value, key, reference)


def _picked(value: str, key: str, reference: str) -> str:
    if not key:
        return value
    try:
        found = json.loads(value)[key]
    except (ValueError, KeyError, TypeError):
        raise NotFound(f'{reference}: there is no "{key}" in what it holds') from None
    return found if isinstance(found, str) else json.dumps(found)


def _aws(place: str) -> str:
    import boto3
    from botocore.config import Config

    region, _, name = place.partition("/")
    patience = Config(connect_timeout=CONNECT_S_MAX, read_timeout=ANSWER_S_MAX, retries={"total_max_attempts": 3})
    client: Any = boto3.client("secretsmanager", region_name=region, config=patience)
    try:
        answer = client.get_secret_value(SecretId=name)
    except client.exceptions.ResourceNotFoundException:
        raise NotFound(f"aws://{place}: there is no such secret") from None
    return str(answer["SecretString"]) if "SecretString" in answer else _text(bytes(answer["SecretBinary"]), place)


def _text(value: bytes, place: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise NotFound(f"{place}: what it holds is not text", "encode it, for example with base64") from None


def _gcp(place: str) -> str:
    from google.cloud import secretmanager

    project, name, *version = place.split("/")
    path = f"projects/{project}/secrets/{name}/versions/{version[0] if version else 'latest'}"
    answer: Any = secretmanager.SecretManagerServiceClient().access_secret_version(name=path)
    return _text(bytes(answer.payload.data), place)


def _azure(place: str) -> str:
    from azure.identity import DefaultAzureCredential
    from azure.keyvault.secrets import SecretClient

    vault, name, *version = place.split("/")
    client: Any = SecretClient(f"https://{vault}.vault.azure.net", DefaultAzureCredential())
    return str(client.get_secret(name, version[0] if version else None).value)


def _vault(place: str) -> str:
    """Vault speaks plain HTTP with one header: no library is needed."""
    import urllib.error
    import urllib.request
    from urllib.parse import quote

    address, token = os.environ.get("VAULT_ADDR", ""), os.environ.get("VAULT_TOKEN", "")
    if not address.startswith(("http://", "https://")) or not token:
        raise OperatorError("VAULT_ADDR and VAULT_TOKEN are not set where the server runs")
    mount, _, path = place.partition("/")
    headers = {"X-Vault-Token": token}
    if os.environ.get("VAULT_NAMESPACE"):
        headers["X-Vault-Namespace"] = os.environ["VAULT_NAMESPACE"]
    where = f"{quote(mount, safe='')}/data/{quote(path, safe='/')}"
    request = urllib.request.Request(f"{address.rstrip('/')}/v1/{where}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:
            return json.dumps(json.load(answer)["data"]["data"])
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise NotFound(f"vault://{place}: there is no such secret") from None
        raise


RESOLVERS: dict[str, Callable[[str], str]] = {"aws": _aws, "gcp": _gcp, "azure": _azure, "vault": _vault}
EXTRAS = {"aws": "aws", "gcp": "gcp", "azure": "azure", "vault": "all"}
