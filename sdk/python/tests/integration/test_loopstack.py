"""The ten tools of Loopstack, over MCP and over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any, Awaitable, Callable, Dict

from ..real_server import Server
from .mcp_client import httpx2, living, over_http, over_stdio, text, token

INIT = {"containerId": "c", "imageName": "template:code-interpreter", "containerName": "box", "projectOutPath": ""}


async def the_ten_tools(call: Callable[[str, Dict[str, Any]], Awaitable[Dict[str, Any]]]) -> None:
    """Loopstack's results, whatever carries them."""
    made = await call("sandbox_init", INIT)
    assert made["containerId"] == "c"
    assert set(made) == {"containerId", "dockerId"}
    ran = await call("sandbox_command", {"containerId": "c", "executable": "sh", "args": ["-c", "echo ' x '; exit 4"]})
    assert ran == {"stdout": "x", "stderr": "", "exitCode": 4, "timedOut": False}
    slow = await call("sandbox_command", {"containerId": "c", "executable": "sleep", "args": ["600"], "timeout": 200})
    assert (slow["exitCode"], slow["timedOut"]) == (-1, True)
    env = {"containerId": "c", "executable": "sh", "args": ["-c", "echo $A; pwd"], "envVars": ["A=b=c"]}
    assert (await call("sandbox_command", {**env, "workingDirectory": "/tmp"}))["stdout"] == "b=c\n/tmp"
    content = "  edges \n\n"
    path = "/workspace/deep/a.txt"
    written = await call("sandbox_write_file", {"containerId": "c", "path": path, "content": content})
    assert written == {"path": path, "bytesWritten": len(content)}
    assert (await call("sandbox_read_file", {"containerId": "c", "path": path}))["content"] == content
    raw = base64.b64encode(bytes(range(256)) * 1000).decode()
    binary = {"containerId": "c", "path": "/tmp/b", "encoding": "base64"}
    assert (await call("sandbox_write_file", {**binary, "content": raw}))["bytesWritten"] == 256_000
    assert await call("sandbox_read_file", binary) == {"content": raw, "encoding": "base64"}
    listed = await call("sandbox_list_directory", {"containerId": "c", "path": "/workspace", "recursive": True})
    assert {(entry["path"], entry["type"]) for entry in listed["entries"]} == {
        ("/workspace/deep", "directory"),
        (path, "file"),
    }
    assert listed["entries"][0].keys() == {"name", "type", "size", "path"}
    directory = {"containerId": "c", "path": "/workspace/deep", "recursive": False}
    assert await call("sandbox_create_directory", directory) == {"path": "/workspace/deep", "created": False}
    assert (await call("sandbox_create_directory", {"containerId": "c", "path": "/workspace/n/m"}))["created"]
    info = await call("sandbox_file_info", {"containerId": "c", "path": path})
    assert (info["name"], info["type"], info["size"]) == ("a.txt", "file", len(content))
    assert info["permissions"].startswith("-rw")
    assert set(info) == {
        *("path", "name", "type", "size", "permissions"),
        *("owner", "group", "modifiedAt", "accessedAt", "createdAt"),
    }
    link = {"containerId": "c", "executable": "ln", "args": ["-s", "/nowhere", "/tmp/dangling"]}
    assert (await call("sandbox_command", link))["exitCode"] == 0
    for place, exists, kind in (
        (path, True, "file"),
        ("/tmp/dangling", False, None),
        ("/workspace", True, "directory"),
    ):
        found = await call("sandbox_exists", {"containerId": "c", "path": place})
        assert found == {"path": place, "exists": exists, "type": kind}
    assert await call("sandbox_delete", {"containerId": "c", "path": path}) == {"path": path, "deleted": True}
    assert (await call("sandbox_delete", {"containerId": "c", "path": path, "force": True}))["deleted"]


LOOPSTACK_MISTAKES = [
    ("sandbox_read_file", {"containerId": "c", "path": "/no"}, "Failed to read file /no: "),
    ("sandbox_delete", {"containerId": "c", "path": "/workspace"}, "Failed to delete /workspace: it is a directory"),
    ("sandbox_file_info", {"containerId": "c", "path": "/no"}, "Failed to get file info for /no: "),
    ("sandbox_list_directory", {"containerId": "c", "path": "/no"}, "Failed to list directory /no: "),
    (
        "sandbox_exists",
        {"containerId": "z", "path": "/"},
        "Container 'z' not registered. Call registerContainer() first.",
    ),
    (
        "sandbox_command",
        {"containerId": "c", "executable": "ls", "workingDirectory": "../x"},
        "Path traversal detected: ",
    ),
    *(
        (f"sandbox_{tool}", {"containerId": "c", "path": "../../etc/x", **more}, "Path traversal detected: ")
        for tool, more in [
            ("read_file", {}),
            ("write_file", {"content": ""}),
            ("list_directory", {}),
            ("create_directory", {}),
            ("delete", {}),
            ("exists", {}),
            ("file_info", {}),
        ]
    ),
    ("sandbox_init", {**INIT, "rootPath": "../x"}, "Path traversal detected: "),
    ("sandbox_command", {"containerId": "c", "executable": "ls", "frob": 1}, "unknown field `frob`"),
]


def test_loopstack_over_mcp(server: Server) -> None:
    before = living(server)

    async def talk(client: Any) -> None:
        assert len((await client.list_tools()).tools) == 10

        async def call(name: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, text(result)
            assert json.loads(text(result)) == result.structured_content
            return dict(result.structured_content)

        await the_ten_tools(call)
        hostile = [
            ("sandbox_init", {**INIT, "containerName": "h", "projectOutPath": "/etc"}, "nobody allowed"),
            ("sandbox_init", {**INIT, "imageName": "template:other"}, "exists with the image"),
            ("sandbox_init", {**INIT, "containerName": "h", "imageName": "/"}, "is not the name of an image"),
        ]
        for name, arguments, said in [*LOOPSTACK_MISTAKES, *hostile]:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert said in text(result)

    over_stdio(talk, "--dialect", "loopstack")
    assert living(server) == before


def test_loopstack_over_mcp_and_http(server: Server) -> None:
    async def talk(client: Any) -> None:
        made = await client.call_tool("sandbox_init", INIT)
        assert not made.is_error, text(made)

    over_http(server, talk, token(server, "loop-m"), "/mcp/loopstack")


def test_loopstack_over_http(server: Server) -> None:
    headers = {"Authorization": f"Bearer {token(server, 'loop-h')}"}
    with httpx2.Client(base_url=server.tcp_url, headers=headers, timeout=60) as http:

        async def call(name: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
            answer = http.post(f"/loopstack/tools/{name}", json=arguments)
            assert answer.status_code == 200, answer.text
            body = answer.json()
            assert set(body) == {"data", "metadata"}
            return dict(body["data"])

        assert len(http.get("/loopstack/tools").json()["tools"]) == 10
        asyncio.run(the_ten_tools(call))
        for name, arguments, said in LOOPSTACK_MISTAKES:
            answer = http.post(f"/loopstack/tools/{name}", json=arguments)
            assert 400 <= answer.status_code < 500
            assert said in answer.json()["message"]
        assert http.post("/loopstack/tools/fly", json={}).status_code == 404
        mounted = http.post(
            "/loopstack/tools/sandbox_init", json={**INIT, "containerName": "m", "projectOutPath": "/etc"}
        )
        assert mounted.status_code == 422, "a tenant mounts nothing of the host"
        destroyed = http.post("/loopstack/tools/sandbox_destroy", json={"containerId": "c"}).json()["data"]
        assert destroyed == {"containerId": "c", "removed": True}
