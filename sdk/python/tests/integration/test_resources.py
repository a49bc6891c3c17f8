"""Values that are kept for scripts."""

from __future__ import annotations

import pytest

from paddock import ResourceNotFound, Resources, Sandbox, Volumes

from ..real_server import Server


def test_a_value_is_kept_and_what_is_bound_is_not_shown(server: Server) -> None:
    resources = Resources()
    value = {"apiKey": "sk-never-shown-again", "days": 7}
    resources.set("sdk/api", value, type="api", secrets={"apiKey": ["api.example.com"]})
    try:
        found = resources.get("sdk/api")
        assert (found.type, found.value["days"]) == ("api", 7)
        assert found.value["apiKey"] == "(bound to api.example.com)"
        assert [one.name for one in resources.list()] == ["sdk/api"]
        assert resources.list()[0].value is None
    finally:
        resources.remove("sdk/api")
    with pytest.raises(ResourceNotFound):
        resources.get("sdk/api")


def test_who_ends_a_sandbox_says_whether_it_failed(server: Server) -> None:
    volumes = Volumes()
    try:
        box = Sandbox.create(volumes={"sdk-failed": "/data/x"}, ttl_seconds=120)
        box.exec("echo x > /data/x/file")
        assert box.kill(failed=True).raw["end"]["cause"] == {"kind": "failed"}
        assert [(one.kind, one.current) for one in volumes.history("sdk-failed")] == [("kept", False)]
    finally:
        volumes.remove("sdk-failed")
