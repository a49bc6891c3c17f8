from __future__ import annotations

import os
from pathlib import Path

import pytest

import paddock
from paddock._location import default_socket, locate, state_directory


def test_a_url_is_taken_as_it_is() -> None:
    location = locate("https://paddock.example:7777/")
    assert (location.base_url, location.socket, location.may_start) == ("https://paddock.example:7777", None, False)


@pytest.mark.parametrize("url", ["unix:/run/x/api.sock", "unix:///run/x/api.sock"])
def test_a_socket_by_its_path(url: str) -> None:
    location = locate(None, {"PADDOCK_URL": url})
    assert (location.socket, location.may_start) == ("/run/x/api.sock", False)
    assert location.shown == "unix:/run/x/api.sock"


@pytest.mark.parametrize("url", ["paddock.example", "ftp://x", "unix:relative", "unix:"])
def test_nonsense_is_refused_with_the_value(url: str) -> None:
    with pytest.raises(paddock.InvalidRequest) as caught:
        locate(url)
    assert url in str(caught.value)
    assert caught.value.hint


def test_a_path_that_the_kernel_would_not_take() -> None:
    with pytest.raises(paddock.InvalidRequest, match="107 bytes"):
        locate("unix:/" + "x" * 200)


def test_the_users_own_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    runtime = {"XDG_RUNTIME_DIR": "/run/user/1000", "HOME": "/home/a"}
    assert default_socket(runtime) == Path("/run/user/1000/paddock/api.sock")
    assert default_socket({"HOME": "/home/a"}) == Path("/home/a/.local/state/paddock/run/api.sock")
    assert default_socket({"PADDOCK_STATE_DIR": "/data"}) == Path("/data/run/api.sock")
    # Whoever names another state directory reaches another server.
    assert default_socket({**runtime, "PADDOCK_STATE_DIR": "/data"}) == Path("/data/run/api.sock")
    assert default_socket({**runtime, "XDG_STATE_HOME": "/state"}) == Path("/state/paddock/run/api.sock")
    named = {**runtime, "PADDOCK_STATE_DIR": "/home/a/.local/state/paddock"}
    assert default_socket(named) == Path("/run/user/1000/paddock/api.sock")
    assert state_directory({"XDG_STATE_HOME": "/state", "HOME": "/home/a"}) == Path("/state/paddock")
    with pytest.raises(paddock.ServerNotStarted, match="neither PADDOCK_STATE_DIR nor HOME"):
        default_socket({})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_socket({"XDG_RUNTIME_DIR": "/run/user/0"}) == Path("/run/paddock/api.sock")
    assert default_socket({"PADDOCK_STATE_DIR": "/data"}) == Path("/data/run/api.sock")
    assert locate(None, {}).may_start
    assert state_directory({}) == Path("/var/lib/paddock")


def test_a_token_of_the_environment_is_not_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_URL", "http://one.test")
    monkeypatch.setenv("PADDOCK_TOKEN", "secret-of-one")
    assert paddock.Client()._token == "secret-of-one"
    assert paddock.Client("http://two.test")._token is None
