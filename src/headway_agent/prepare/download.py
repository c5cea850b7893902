"""One object of the world outside, at an http(s):// or s3:// address: asking for it, and what its answers mean.

Whatever goes wrong is one of three: refused by who answers, no address or no such host (the same next time), or an
OSError without a number: the network, which may be better in a minute. A number means this machine's own disk.
"""

from __future__ import annotations

import base64
import os
import time
from urllib.parse import quote, unquote

from headway_agent.prepare import network_errors, s3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

CALL_S_MAX = 60.0
ERROR_BYTES_MAX = 4096
NAME_IF_NONE = "data"
AS_TYPED = "%/:?#[]@!$&'()*+,;=-._~"  # Has a meaning in an address, or is plain.


class WrongDownload(Exception):
    """What came is not what was announced, or it cannot be asked for."""


class DownloadRefused(Exception):
    def __init__(self, status: int, more: str = "") -> None:
        super().__init__(f"answered {status}{more}")
        self.busy = status in network_errors.BUSY  # It may answer otherwise later.


class RemoteFile:
    """One object at an address: how to ask for it, and what it is called here."""

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        self.url, self._environ = url, environ
        self._s3 = url.startswith("s3://")
        path = url.partition("://")[2]
        if not self._s3:  # There these are letters of the key like any other.
            path = path.partition("?")[0].partition("#")[0]
        self.name = os.path.basename(path.rstrip("/")) if "/" in path else NAME_IF_NONE
        if self.name in ("", ".", "..") or "\0" in self.name:
            self.name = NAME_IF_NONE
        self.http, self._login = (s3.address(environ, *s3.split(url)), {}) if self._s3 else plain(url)

    def open(self, method: str, query: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the open answer. Raises Refused, WrongContent, or OSError without a number."""
        import http.client
        import urllib.error
        import urllib.request

        url = f"{self.http}?{s3.encoded(query)}" if query else self.http
        try:
            request = urllib.request.Request(url, method=method)
            for name, value in self._headers(method, query or {}).items():
                request.add_unredirected_header(name, value)  # Keys are for who was named, not for whom that one names.
            answer = urllib.request.urlopen(request, timeout=CALL_S_MAX)
            if answer.status != 200:  # 206 would be a piece that nobody asked for.
                answer.close()
                raise DownloadRefused(answer.status)
            return answer
        except urllib.error.HTTPError as error:
            with error:
                raise DownloadRefused(error.code, self._explained(error)) from None
        except urllib.error.URLError as error:
            if network_errors.UNKNOWN_HOST.search(str(error.reason)):
                raise WrongDownload(f"has a host that nobody knows: {self._host()}") from None
            raise OSError(str(error.reason)) from None
        except (http.client.InvalidURL, ValueError) as error:
            raise WrongDownload(f"is not an address that can be asked: {error}") from None
        except http.client.HTTPException as error:
            raise OSError(f"what answers does not speak HTTP: {type(error).__name__}") from None
        except OSError as error:  # While the answer was waited for.
            raise OSError(str(error)) from None

    def _headers(self, method: str, query: Mapping[str, str]) -> Mapping[str, str]:
        if not self._s3:
            return self._login
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return s3.signed(self._environ, method, self.http, moment, query)

    def _host(self) -> str:
        host = self.http.partition("://")[2].partition("/")[0]
        named = self._environ.get("AWS_ENDPOINT_URL_S3") or self._environ.get("AWS_ENDPOINT_URL")
        return f"{host} (this node has no AWS_ENDPOINT_URL)" if self._s3 and not named else host

    def _explained(self, error: Any) -> str:
        """What a store says besides its status, and what the caller may have missed."""
        if not self._s3:
            return ""
        try:
            code = s3.error_code(error.read(ERROR_BYTES_MAX).decode("utf-8", "replace"))
        except Exception:  # It broke off; the status is enough.
            code = ""
        said = f" ({code})" if code else ""
        if error.code in (401, 403) and not self._environ.get("AWS_ACCESS_KEY_ID"):
            return f"{said}; this node has no AWS_ACCESS_KEY_ID"
        if code == "NoSuchKey":
            return f'{said}; for all objects below it, end it with "/"'
        return said


def plain(url: str) -> tuple[str, dict[str, str]]:
    """An address as it may stand in a request, and the header for the user and the password that stand in it."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    login = base64.b64encode(unquote(user).encode()).decode()
    headers = {"Authorization": f"Basic {login}"} if at else {}
    return f"{scheme}://{host}{slash}{quote(path, safe=AS_TYPED)}", headers


def etag(headers: Any) -> str:
    return bare(headers.get("ETag") or "")


def bare(tag: str) -> str:
    """An etag without the signs around it: stores list it in one way and send it in another."""
    return (tag[2:] if tag.startswith("W/") else tag).strip('"')


def shown(url: str) -> str:
    """The URL without what may be secret in it: user, password, query."""
    if url.startswith("s3://"):
        return url
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
