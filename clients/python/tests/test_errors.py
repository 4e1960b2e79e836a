"""Errors and repetition: behaviours 17 to 28."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

import pytest

import punctual
from punctual import NewTask, errors
from punctual.testing import Server
from tests.proxy import Proxy

conformance = pytest.mark.conformance
TOKEN = "python-sdk-0123456789abcdefghijkl"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@conformance(17)
@pytest.mark.parametrize("key", [None, "a-key"])
def test_an_insert_whose_answer_is_lost_makes_one_task(
    client: punctual.Client, proxy: Proxy, queue: str, key: str | None
) -> None:
    proxy.once("lose", "POST", "/v1/tasks")
    with punctual.Client(proxy.url, token=None) as through:
        task = through.insert(queue, delay="1h", key=key and f"{key}-{queue}")
    assert proxy.count("POST", "/v1/tasks") == 2
    assert [found.ref for found in client.search(queue=queue)] == [task.ref]


@conformance(18)
def test_a_batch_whose_answer_is_lost_makes_each_task_once(client: punctual.Client, proxy: Proxy, queue: str) -> None:
    proxy.once("lose", "POST", "/v1/tasks/batch")
    with punctual.Client(proxy.url, token=None) as through:
        items = through.insert_many(NewTask(queue, nth, delay="1h") for nth in range(5))
    assert proxy.count("POST", "/v1/tasks/batch") == 2
    assert {item.unwrap().ref for item in items} == {task.ref for task in client.iterate(queue=queue)}


@conformance(19)
def test_a_cancel_whose_answer_is_lost_is_not_sent_again(client: punctual.Client, proxy: Proxy, queue: str) -> None:
    task = client.insert(queue, delay="1h")
    proxy.once("lose", "POST", f"/v1/tasks/{task.ref}/cancel")
    with punctual.Client(proxy.url, token=None) as through, pytest.raises(errors.Indeterminate) as unknown:
        through.cancel(task.ref)
    assert unknown.value.may_have_happened
    assert proxy.count("POST", f"/v1/tasks/{task.ref}/cancel") == 1
    assert client.get(task.ref).state == "cancelled"


@conformance(20)
def test_a_refusal_for_now_is_waited_for(proxy: Proxy, queue: str) -> None:
    proxy.once("refuse", "POST", "/v1/tasks")
    with punctual.Client(proxy.url, token=None) as client:
        assert client.insert(queue, delay="1h").outcome == "created"
    proxy.always("refuse", "POST", "/v1/tasks")
    with punctual.Client(proxy.url, token=None, tries=2) as client, pytest.raises(errors.Busy) as busy:
        client.insert(queue)
    assert (busy.value.code, busy.value.retry_after, busy.value.may_have_happened) == ("overload", 0.3, False)


@conformance(21)
def test_nothing_happened_at_a_server_that_cannot_be_reached() -> None:
    client = punctual.Client(f"http://127.0.0.1:{free_port()}", tries=2)
    with client, pytest.raises(errors.Unreachable) as unreachable:
        client.insert("mail")
    assert not unreachable.value.may_have_happened


@conformance(22)
def test_no_answer_in_time_may_mean_that_it_happened(proxy: Proxy) -> None:
    proxy.always("hang", "POST", "/v1/tasks")
    client = punctual.Client(proxy.url, token=None, request_timeout="100ms", tries=2)
    with client, pytest.raises(errors.Indeterminate) as unknown:
        client.insert("mail")
    assert unknown.value.may_have_happened
    assert proxy.count("POST", "/v1/tasks") == 2


@conformance(23)
def test_the_next_server_is_asked_when_one_is_unreachable(server: Server, queue: str) -> None:
    with punctual.Client(f"http://127.0.0.1:{free_port()}, {server.url}/", token=None, tries=1) as client:
        assert client.insert(queue, delay="1h").outcome == "created"


@conformance(24)
def test_a_bad_token_is_refused_and_none_is_shown() -> None:
    with Server(environment={"PUNCTUAL_AUTH_ADMIN_TOKEN": TOKEN}) as server:
        good = punctual.Client(server.url, token=TOKEN)
        assert good.insert("mail", delay="1h").outcome == "created"
        bad = punctual.Client(server.url, token=TOKEN[:-1] + "x")
        with pytest.raises(errors.AccessDenied) as refused:
            bad.insert("mail")
        assert refused.value.code == "auth.required"
        shown = f"{refused.value} {refused.value!r} {good.settings!r} {vars(refused.value)}"
        good.close()
        bad.close()
    assert TOKEN[:10] not in shown
    with pytest.raises(errors.ConfigurationError) as faulty:
        punctual.Client(token="secret\n")
    assert "secret" not in str(faulty.value)


def authority(directory: Path) -> dict[str, str]:
    """A certificate for the loopback address that is its own authority, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    files = {"cert": certificate.public_bytes(pem), "key": key.private_bytes(pem, form, serialization.NoEncryption())}
    for file, text in files.items():
        (directory / f"{file}.pem").write_bytes(text)
    return {file: str(directory / f"{file}.pem") for file in files}


@conformance(25)
def test_only_the_callers_authority_is_trusted(tmp_path: Path) -> None:
    files = authority(tmp_path)
    settings = {"PUNCTUAL_TLS_CERT": files["cert"], "PUNCTUAL_TLS_KEY": files["key"]}
    with Server(environment={**settings, "PUNCTUAL_AUTH_ADMIN_TOKEN": TOKEN}) as server:
        assert server.url.startswith("https://")
        with punctual.Client(server.url, token=TOKEN, ca_file=files["cert"]) as client:
            assert client.insert("mail", delay="1h").outcome == "created"
        stranger = punctual.Client(server.url, token=TOKEN, ca_file=None, tries=1)
        with stranger, pytest.raises(errors.Unreachable, match="certificate verify failed"):
            stranger.insert("mail")
    with pytest.raises(errors.ConfigurationError, match=r"/no/such/ca\.pem"):
        punctual.Client("https://example.org", ca_file="/no/such/ca.pem")


@conformance(26)
def test_a_namespace_does_not_see_the_tasks_of_another(server: Server, client: punctual.Client, queue: str) -> None:
    with punctual.Client(server.url, token=None, namespace="another") as other:
        task = other.insert(queue, delay="1h", key=queue)
        assert (task.namespace, other.settings.namespace) == ("another", "another")
    assert client.find(key=queue) == []
    with pytest.raises(errors.NotFound):
        client.get(f"key:{queue}")


@conformance(27)
def test_an_unknown_task_has_a_code_and_a_page(client: punctual.Client) -> None:
    with pytest.raises(errors.NotFound) as refused:
        client.get("key:no-such-task")
    assert refused.value.code == "task.not_found"
    assert refused.value.help == "/docs/errors/task.not_found"
    assert "no-such-task" in refused.value.detail


@conformance(28)
@pytest.mark.parametrize("key", ["a/b/../c", "..", "why?", "50 % #1 &x=y+z", "Größe:日本"])
def test_a_key_of_any_letters_reads_its_task(client: punctual.Client, queue: str, key: str) -> None:
    key = f"{key}{queue[-6:]}" if key != ".." else ".."
    task = client.insert(queue, key=key, delay="1h")
    assert client.get(f"key:{key}").ref == task.ref
    assert client.find(key=key)[0].key == key


def test_a_reference_cannot_leave_its_place_in_the_path() -> None:
    from punctual._call import path

    assert path("tasks", "a/../b?c#d e", "why") == "/v1/tasks/a%2F..%2Fb%3Fc%23d%20e/why"
    assert (path(".."), path("v1.x"), path("é")) == ("/v1/%2E%2E", "/v1/v1.x", "/v1/%C3%A9")


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "127.0.0.1:7450", "http://", "http://x/?a=b", "http://x,", "http://x,y"]
)
def test_an_address_that_cannot_work_is_refused_at_once(url: str) -> None:
    if url:
        with pytest.raises(errors.ConfigurationError):
            punctual.Client(url)
