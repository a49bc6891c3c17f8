"""Secrets under a name as the SDK gives them."""

from __future__ import annotations

import pytest

import paddock
from paddock import Sandbox, Secrets

VALUE = "the-value-that-nobody-sees"


def test_a_secret_is_kept_changed_used_and_removed() -> None:
    secrets = Secrets()
    made = secrets.create("sdk/key", VALUE, metadata={"team": "a"}, hosts=["api.example.com"])
    try:
        assert (made.version, made.metadata, made.hosts) == (1, {"team": "a"}, ["api.example.com"])
        assert secrets.update("sdk/key", VALUE + "-2").version == 2
        assert secrets.get(made.id).name == "sdk/key"
        assert "sdk/key" in [secret.name for secret in secrets.list()]
        assert VALUE not in repr(secrets.list())
        bound = {"KEY": {"from": "secret:sdk/key", "hosts": ["api.example.com"]}}
        with Sandbox.create(secrets=bound, ttl_seconds=120) as box:
            assert box.exec("echo $KEY").stdout.startswith("paddock-secret-")
        with pytest.raises(paddock.Forbidden, match="not bound"):
            Sandbox.create(secrets={"KEY": {"from": "secret:sdk/key", "hosts": ["evil.example.com"]}})
        with pytest.raises(paddock.NameTaken):
            secrets.create("sdk/key", VALUE)
        with pytest.raises(paddock.InvalidRequest):
            secrets.create("sdk/short", "short")
    finally:
        secrets.remove("sdk/key")
    with pytest.raises(paddock.SecretNotFound):
        secrets.get("sdk/key")
