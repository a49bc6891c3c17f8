"""What a program does, over TLS: the variables say where, and SSL_CERT_FILE whom to trust. Says what it got as JSON."""
import asyncio
import json
import os
import sys
import time

from e2b import AsyncSandbox, ConnectionConfig
from e2b.api.client_sync import get_pyqwest_transport
from e2b_code_interpreter import Sandbox
from pyqwest import SyncClient

SERVE = "mkdir -p /tmp/site && cd /tmp/site && echo served > index.html && exec python3 -m http.server 3000"


def version():
    """Of HTTP, as the SDK's own transport agrees on it with the server."""
    client = SyncClient(get_pyqwest_transport(None, http_version=ConnectionConfig().http_version))
    with client.stream("GET", os.environ["E2B_API_URL"] + "/v2/sandboxes", headers={"X-API-KEY": os.environ["E2B_API_KEY"]}) as answer:
        assert answer.status == 200, answer.status
        return str(answer.http_version)


def events(handle):
    end, names = time.monotonic() + 20, set()
    while "seen" not in names and time.monotonic() < end:
        names |= {one.name for one in handle.get_new_events()}
        time.sleep(0.025)
    return sorted(names)


async def beside():
    sandbox = await AsyncSandbox.create(timeout=120)
    try:
        said = await asyncio.gather(*(sandbox.commands.run(f"echo {number}") for number in range(10)))
        return [one.stdout.strip() for one in said]
    finally:
        await sandbox.kill()


def main():
    with Sandbox.create(timeout=300) as sandbox:
        pieces = []
        told = {"version": version(), "said": sandbox.commands.run("echo hello; echo wrong >&2", on_stdout=pieces.append).stdout, "pieces": "".join(pieces)}
        sandbox.files.write("/tmp/large", b"x" * 3_000_000)
        told["large"] = len(sandbox.files.read("/tmp/large", format="bytes"))
        told["code"] = sandbox.run_code("6 * 7").text
        handle = sandbox.files.watch_dir("/tmp")
        sandbox.files.write("/tmp/seen", "x")
        told["events"] = events(handle)
        told["download"] = sandbox.download_url("/tmp/seen")
        told["beside"] = asyncio.run(beside())
        sandbox.commands.run(SERVE, background=True, timeout=0)
        sandbox.commands.run("for n in $(seq 100); do curl -so /dev/null localhost:3000 && exit; sleep 0.1; done; exit 1")
        told.update(host=sandbox.get_host(3000), token=sandbox.traffic_access_token)
        print(json.dumps(told), flush=True)
        # The port is asked by who reads this.
        sys.stdin.readline()


main()
