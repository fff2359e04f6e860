"""TLS in front of a server: the one of the wheel was built without it.

A client asks for TLS with eight bytes; what answers here makes a real handshake with a real certificate, and
hands everything on to the socket of the server. It may also refuse, as a server without TLS does, and then
keeps what it is sent all the same.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

ASKS_FOR_TLS = struct.pack("!ii", 8, 80877103)
ASKS_FOR_GSS = struct.pack("!ii", 8, 80877104)


class Authority:
    """Whoever signs certificates; its own is in `file`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.crt"
        certificate = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def certify(self, *hosts: str) -> ssl.SSLContext:
        """What a server needs that has these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        names = [x509.IPAddress(ip_address(h)) if h[0].isdigit() else x509.DNSName(h) for h in hosts]
        certificate = self._signed(subject, key, x509.SubjectAlternativeName(names))
        file = self._folder / f"{hosts[0]}.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + certificate.public_bytes(Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self._key, hashes.SHA256())
        )


class Front:
    """What a client reaches by TCP; `context` is None where it offers no TLS."""

    def __init__(self, server: Path | None, context: ssl.SSLContext | None) -> None:
        self._server = server
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listening.getsockname()[1]
        self.asked = 0  # clients that asked for TLS
        self.encrypted: list[str] = []  # the version of each handshake that was finished
        self.plain = b""  # what came without

    def __enter__(self) -> Front:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                self._open.append(client)
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            first = client.recv(8)
            while first == ASKS_FOR_GSS:
                client.sendall(b"N")
                first = client.recv(8)
            if first == ASKS_FOR_TLS:
                self.asked += 1
                client.sendall(b"S" if self._context else b"N")
                if self._context:
                    self._hand_on(self._context.wrap_socket(client, server_side=True), b"")
                    return
                first = b""
            if self._server is not None:
                self.plain += first
                self._hand_on(client, first)
                return
            self._take_anything(client, first)

    def _take_anything(self, client: socket.socket, first: bytes) -> None:
        """Ask for the password in plain, and keep what comes."""
        self.plain += first or client.recv(4096)
        client.sendall(b"R" + struct.pack("!ii", 8, 3))
        while more := client.recv(4096):
            self.plain += more

    def _hand_on(self, client: socket.socket, first: bytes) -> None:
        if isinstance(client, ssl.SSLSocket):
            self._open.append(client)
            self.encrypted.append(client.version() or "")
        behind = socket.socket(socket.AF_UNIX)
        self._open.append(behind)
        behind.connect(str(self._server))
        behind.sendall(first)
        Thread(target=_pump, args=(behind, client), daemon=True).start()
        _pump(client, behind)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
