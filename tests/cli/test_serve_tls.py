"""`bridle serve` for the network: with TLS and a token, for clients that verify whom they talk to."""

import datetime as dt
import ipaddress
import socket
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bridle.clients.engine_address import engine_address
from bridle.clients.remote import connect_remote, engine_opener
from bridle.conformance.exchanges import exchange_at
from bridle.conformance.wire_doors import connect_rest
from bridle.control.token_files import read_token_file
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.codec import encode_envelope
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import TurnEnded
from bridle.protocol.messages import TextBlock
from cli_kit import TIMEOUT_S, Place
from cli_terminal import sitting
from serve_kit import ServedPlace, serving


def certificate(folder: Path, name: str, *addresses: str) -> tuple[str, str]:
    """A certificate that nobody signed but itself, and its key: for these addresses, good for an hour."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name), *names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return str(paths[0]), str(paths[1])


def minted(place: Place, name: str, *words: str) -> str:
    file = str(place.home / name)
    with sitting(place, "token", "mint", *words, "--out", file, columns=400) as person:
        assert person.ends() == 0, person.text
    return file


async def read(connection: Connection, session: str) -> list[bytes]:
    """What is stored of a session, as it came, up to the end of its first turn."""
    seen: list[bytes] = []
    async for envelope in connection.events(session):
        if envelope.id is not None:
            seen.append(encode_envelope(envelope))
        if isinstance(envelope.event, TurnEnded):
            return seen
    raise AssertionError("it ended before its turn did")


def session_of(served: ServedPlace) -> str:
    body = {"cwd": str(served.home.work), "model": served.home.script("say Seen from afar.\n")}
    return served.ask("POST", "/v1/sessions", body).json["session"]


@pytest.mark.requirement("G21.6", "X20")
async def test_the_network_is_served_with_tls_to_who_verifies_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    cert, key = certificate(tmp_path, "engine.example", "127.0.0.1")
    other, _ = certificate(tmp_path, "other.example", "127.0.0.1")
    ci = minted(place, "ci", "--ci")
    words = ("--auth-token-file", ci, "--tls-cert", cert, "--tls-key", key)
    with serving(place, "--listen", "0.0.0.0:0", *words) as served:
        session = session_of(served)
        file = minted(place, "ana", "--session", session, "--name", "Ana")
        token, url = read_token_file(file), f"https://127.0.0.1:{served.port}"

        by_socket = await connect_remote(
            engine_opener(engine_address(url, ca_file=cert), lambda: token),
            address=url,
            name="Ana",
            answers=True,
        )
        by_requests = await connect_rest(exchange_at(url, ca_file=cert), token, address=url)
        await by_socket.send(c.AttachSession(session=session))
        await by_socket.send(c.SendInput(session=session, content=(TextBlock(text="hi"),)))
        assert (await by_requests.ask(q.DescribeSession(session=session))).session.id == session
        seen = await read(by_socket, session)
        assert b"Seen from afar." in b"".join(seen)
        assert await read(by_requests, session) == seen
        for connection in (by_socket, by_requests):
            await connection.close()

        # one that names no session is for this machine, though the engine was started with it
        with pytest.raises(CommandRefused) as unbound:
            await connect_rest(exchange_at(url, ca_file=cert), read_token_file(ci), address=url)
        assert unbound.value.reason == "TokenInvalid"
        # nothing is said to who cannot be verified
        for trusted in ((), ("--ca-file", other)):
            ran = place.bridle("attach", "--watch", url, "--token-file", file, *trusted)
            assert ran.code == 2
            assert ran.err == (
                f"bridle: The certificate of {url} cannot be verified (self-signed certificate), so nothing was sent "
                "there. Name the file with whoever signed it: --ca-file FILE\n"
            )
        with pytest.raises(CommandRefused) as unverified:
            await connect_rest(exchange_at(url), token, address=url)
        assert unverified.value.reason == "EngineUnverified"
        missing = place.bridle("attach", "--watch", url, "--token-file", file, "--ca-file", "nobody.pem")
        assert (missing.code, missing.err) == (
            2,
            "bridle: nobody.pem holds no certificates to trust: No such file or directory\n",
        )
        # and without TLS nobody answers
        with socket.create_connection(("127.0.0.1", served.port), TIMEOUT_S) as plain:
            plain.sendall(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"HTTP" not in plain.recv(65536)


def test_what_is_no_certificate_is_named(tmp_path: Path) -> None:
    place = Place(tmp_path)
    cert, key = certificate(tmp_path, "engine.example")
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    for given, why in (
        ((str(nothing), key), " holds no certificate in PEM\n"),
        ((cert, str(nothing)), "\n"),
        ((str(tmp_path / "nobody/nothing.pem"), key), " cannot be read: No such file or directory\n"),
    ):
        ran = place.bridle("serve", "--listen", "127.0.0.1:0", "--tls-cert", given[0], "--tls-key", given[1])
        assert ran.code == 2
        assert ran.err.startswith("bridle: ")
        assert "nothing.pem" in ran.err
        assert ran.err.endswith(why)
        assert ran.err.count("\n") == 1
