"""A registry on loopback that serves one small image: a busybox with a shell, as `e2b/busybox:1`.

The same with another greeting is `e2b/private:1`, for those who log in, and with a user `e2b/nobody:1`. `e2b/thief:1` names its parts, and has none of them.
"""
import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import subprocess
import tarfile
import threading

BUSYBOX = "/bin/busybox"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
#: Passwords of the private image, by user.
LOGINS = {"ann": "hush-hush-71c2", "_json_key": json.dumps({"type": "service_account", "private_key": "hush\nhush-71c2"})}


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(greeting):
    """A root with every applet of the host's busybox; `None` where the host has no static one."""
    try:
        with open(BUSYBOX, "rb") as file:
            program = file.read()
        applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return None
    if b"/ld-linux" in program:
        return None
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("bin", "etc", "home", "srv", "tmp"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name, mode, content in (
            ("bin/busybox", 0o755, program),
            # E2B's SDKs run every command in bash.
            ("bin/bash", 0o755, b'#!/bin/sh\nexec /bin/busybox ash "$@"\n'),
            ("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"),
            ("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n"),
            ("etc/greeting", 0o644, greeting),
        ):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            tar.addfile(info, io.BytesIO(content))
        for name in applets:
            if name in ("busybox", "bash"):
                continue
            info = tarfile.TarInfo(f"bin/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(info)
    return archive.getvalue()


def contents(plain, repository, **settings):
    """Media type and bytes, by path. `settings` are more of the image's configuration."""
    packed = gzip.compress(plain, 1, mtime=0)
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    config = json.dumps({
        "architecture": "arm64" if machine == "aarch64" else "amd64", "os": "linux",
        "config": {"Env": ["PATH=/bin:/usr/local/bin:/usr/bin", "FROM_IMAGE=yes"], "Cmd": ["sh"], **settings},
        "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
    }).encode()
    described = [{"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data)}
                 for kind, data in (("config.v1+json", config), ("layer.v1.tar+gzip", packed))]
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0],
                           "layers": [described[1]]}).encode()
    found = {"/v2/": ("application/json", b"{}")}
    for data in (config, packed):
        found[f"/v2/{repository}/blobs/{digest(data)}"] = ("application/octet-stream", data)
    for name in ("1", "latest", digest(manifest)):
        found[f"/v2/{repository}/manifests/{name}"] = (MANIFEST, manifest)
    return found


def logged_in(headers):
    kind, _, packed = headers.get("Authorization", "").partition(" ")
    if kind != "Basic":
        return False
    user, _, password = base64.b64decode(packed).decode().partition(":")
    return LOGINS.get(user) == password


class Registry:
    """Serves until it is closed."""

    def __init__(self):
        plain = layer(b"from the image\n")
        self.image, self.server = None, None
        if plain is None:
            return
        found = contents(plain, "e2b/busybox")
        found |= contents(layer(b"from the private image\n"), "e2b/private")
        found |= contents(plain, "e2b/nobody", User="nobody")
        found["/v2/e2b/thief/manifests/1"] = found["/v2/e2b/private/manifests/1"]

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path.startswith("/v2/e2b/private/") and not logged_in(self.headers):
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="tests"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                kind, body = found.get(self.path.split("?")[0], (None, b'{"errors":[]}'))
                self.send_response(200 if kind else 404)
                self.send_header("Content-Type", kind or "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Docker-Content-Digest", digest(body))
                self.end_headers()
                if self.command != "HEAD":
                    with contextlib.suppress(OSError):
                        self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.image = f"{self.address}/e2b/busybox:1"
        self.private_image = f"{self.address}/e2b/private:1"

    def close(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
