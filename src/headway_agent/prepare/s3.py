"""Reading from S3 and what speaks like it: signed requests (Signature Version 4) and lists of keys.

Pure: makes URLs and headers, and reads answers; inputs.py does the calls. Without keys in the environment requests go
unsigned, which is enough for public buckets.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from html import unescape
from urllib.parse import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


def split(url: str) -> tuple[str, str]:
    """The bucket and the key of an s3:// URL."""
    bucket, _, key = url[len("s3://") :].partition("/")
    return bucket, key


def address(environ: Mapping[str, str], bucket: str, key: str) -> str:
    """The HTTP address of an object: below the endpoint that the environment names, else at Amazon."""
    path = quote(key, safe="/-_.~")
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        return f"{endpoint.rstrip('/')}/{bucket}/{path}"
    return f"https://{bucket}.s3.{region(environ)}.amazonaws.com/{path}"


def region(environ: Mapping[str, str]) -> str:
    return environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def signed(environ: Mapping[str, str], method: str, url: str, moment: str, query: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request at this moment (UTC, as 20261115T223000Z). The query is not yet in the URL."""
    key_id, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        return {}
    host, _, path = url.partition("://")[2].partition("/")
    headers = {"host": host, "x-amz-content-sha256": EMPTY_SHA256, "x-amz-date": moment}
    if environ.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = environ["AWS_SESSION_TOKEN"]
    names = ";".join(sorted(headers))
    lines = [method, f"/{path}", encoded(query), *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names]
    request = "\n".join([*lines, EMPTY_SHA256])
    scope = f"{moment[:8]}/{region(environ)}/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = hmac.new(signing, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(signing, to_sign.encode(), hashlib.sha256).hexdigest()
    del headers["host"]  # The client sets it.
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def encoded(query: Mapping[str, str]) -> str:
    return "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))


def list_query(prefix: str, token: str) -> dict[str, str]:
    query = {"list-type": "2", "prefix": prefix}
    return dict(query, **{"continuation-token": token}) if token else query


def listed(answer: str) -> tuple[list[tuple[str, str, int]], str]:
    """The (key, etag, size) of each object in an answer to a list, and the token of the next one, or nothing."""
    found = []
    for block in re.findall(r"<Contents>(.*?)</Contents>", answer, re.DOTALL):
        found.append((_field(block, "Key"), _field(block, "ETag").strip('"'), int(_field(block, "Size") or 0)))
    return found, _field(answer, "NextContinuationToken") if _field(answer, "IsTruncated") == "true" else ""


def error_code(answer: str) -> str:
    """The store's own word for what is wrong, as NoSuchBucket; nothing where it says none."""
    return _field(answer, "Code")[:60] if "<Error" in answer else ""


def _field(text: str, name: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return unescape(found.group(1)) if found else ""
