"""Why there is no TLS between two nodes, in words that tell what to do. What OpenSSL says is meant for its authors."""

import ssl
from typing import Final

_OF_CERTIFICATES: Final = {
    9: "is not valid yet: compare the clocks",
    10: "has expired",
    18: "is of another authority",
    19: "is of another authority",
    20: "is of another authority",
    21: "is of another authority",
    23: "was revoked",
    26: "is not meant for this end of a connection",
    79: "was not made by an authority: the one that signed it may not sign",
}
"""By the numbers of X509_V_ERR."""

_OF_ALERTS: Final = {
    "CERTIFICATE_EXPIRED": "has expired",
    "UNKNOWN_CA": "is of another authority",
    "BAD_CERTIFICATE": "is not good",
    "UNSUPPORTED_CERTIFICATE": "is not meant for this end of a connection",
    "CERTIFICATE_REVOKED": "was revoked",
    "CERTIFICATE_UNKNOWN": "is not accepted",
}


def reason_of_tls(error: ssl.SSLError) -> str:
    """A part of a sentence about the other side, which is "it"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate {fault_of_certificate(error)}"
    reason = error.reason or str(error)
    for name, fault in _OF_ALERTS.items():
        if reason.endswith(f"ALERT_{name}"):
            return f"it says that the certificate of this side {fault}"
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason or "UNKNOWN_PROTOCOL" in reason:
        return "it does not speak TLS"
    if "ALERT" in reason:
        return f"it has ended TLS: {_plain(reason.partition('ALERT_')[2] or reason)}"
    return f"no TLS with it: {_plain(reason)}"


def fault_of_certificate(error: ssl.SSLCertVerificationError) -> str:
    return _OF_CERTIFICATES.get(error.verify_code, f"is not valid: {error.verify_message}")


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()
