"""Why there is no connection: each cause by its own code, since each has another remedy."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import Iterator, List, Optional

from ._errors import ConnectionFailed
from ._location import Location
from ._retrying import Broken, NeverReached

#: OpenSSL's numbers for certificates of an unknown authority, of another name, and out of their time.
_UNTRUSTED = (2, 18, 19, 20, 21, 24)
_OTHER_NAME = (62, 64)
_OUT_OF_TIME = (9, 10)


@dataclass(frozen=True)
class Cause:
    code: str
    #: What is said after "the server at ADDRESS", or "" where nothing more is known than what the system said.
    words: str
    hint: str


def connection_failed(error: Exception, location: Location) -> ConnectionFailed:
    """What to raise for an error of the transport."""
    where, said = location.shown, str(error) or type(error).__name__
    cause = cause_of(error, location)
    if cause is not None:
        message = f"{cause.words.format(where=where)}: {said}"
        return ConnectionFailed(message, code=cause.code, hint=cause.hint)
    what = "cannot reach" if isinstance(error, NeverReached) else "lost the connection to"
    return ConnectionFailed(
        f"{what} the server at {where}: {said}",
        hint="is `paddock serve` running there? PADDOCK_URL says where to look",
    )


def is_final(error: Exception) -> bool:
    """Trying again does not help: what is wrong is the address, the certificate or a right."""
    return any(isinstance(cause, (ssl.SSLError, PermissionError)) for cause in _causes(error))


def cause_of(error: Exception, location: Location) -> Optional[Cause]:
    if isinstance(error, NeverReached) and any(_is_timeout(cause) for cause in _causes(error)):
        return Cause(
            "connect_timeout",
            "the server at {where} did not answer in time",
            "check PADDOCK_URL, and whether a firewall is in between",
        )
    for cause in _causes(error):
        found = _of_tls(cause) or _of_system(cause)
        if found is not None:
            return found
    plain = location.socket is None and not location.base_url.startswith("https:")
    if plain and isinstance(error, Broken):
        return Cause(
            "connection_failed",
            "lost the connection to the server at {where}, which gave no answer",
            "is `paddock serve` running there? If it speaks TLS, PADDOCK_URL begins with https://",
        )
    return None


def _is_timeout(cause: BaseException) -> bool:
    # Before Python 3.11 asyncio's is no TimeoutError, and before 3.10 a socket's is none; httpx has one of its own.
    return isinstance(cause, (TimeoutError, socket.timeout)) or type(cause).__name__ in (
        "TimeoutError",
        "ConnectTimeout",
    )


def _of_tls(cause: BaseException) -> Optional[Cause]:
    if isinstance(cause, ssl.SSLCertVerificationError):
        number = cause.verify_code
        if number in _UNTRUSTED:
            return Cause(
                "certificate_untrusted",
                "the certificate of the server at {where} is of an authority that this program does not trust",
                "name the PEM file of its authority with SSL_CERT_FILE; where TLS is inspected, that of the network",
            )
        if number in _OTHER_NAME:
            return Cause(
                "certificate_other_name",
                "the certificate of the server at {where} is for another name",
                "write the name that the certificate is for into PADDOCK_URL",
            )
        if number in _OUT_OF_TIME:
            return Cause(
                "certificate_out_of_time",
                "the certificate of the server at {where} has expired, or is not valid yet",
                "check this machine's clock; else the server needs a new certificate",
            )
        return Cause(
            "certificate_bad",
            "the certificate of the server at {where} cannot be used",
            "the server needs another certificate",
        )
    if isinstance(cause, ssl.SSLError):
        reason = cause.reason or ""
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
            return Cause(
                "not_tls",
                "what listens at {where} does not speak TLS",
                "PADDOCK_URL begins with http:// if it is a Paddock server without TLS",
            )
        return Cause(
            "tls_failed",
            "no TLS connection to the server at {where} could be made",
            "check PADDOCK_URL; both sides need TLS 1.2 or 1.3",
        )
    return None


def _of_system(cause: BaseException) -> Optional[Cause]:
    if isinstance(cause, PermissionError):
        return Cause(
            "socket_denied",
            "this user may not use the socket of the server at {where}",
            "a server's socket is its owner's alone: ask for an address and a token, or unset PADDOCK_URL",
        )
    if isinstance(cause, socket.gaierror):
        return Cause(
            "name_unknown",
            "the name of the server at {where} is not known",
            "check PADDOCK_URL, and the network",
        )
    if isinstance(cause, (ConnectionRefusedError, FileNotFoundError)):
        return Cause(
            "nobody_listens",
            "no server listens at {where}",
            "start it there with `paddock serve`; PADDOCK_URL says where to look",
        )
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from; of groups each member."""
    left: List[BaseException] = [error]
    seen = set()
    while left:
        cause = left.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        left.extend(getattr(cause, "exceptions", ()))
        left.extend(inner for inner in (cause.__cause__, cause.__context__) if inner is not None)
