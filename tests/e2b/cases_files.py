"""Files with the Python SDK, as programs that wait use it."""
import gzip
import io
import os
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest_like as expect
from e2b import FileType, InvalidArgumentException, NotFoundException, SandboxException
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType


def case_text_and_bytes_go_in_and_out(world):
    files = world.sandbox.files
    info = files.write("a/b/c.txt", "grün\n")
    assert (info.name, info.type, info.path) == ("c.txt", FileType.FILE, "/home/user/a/b/c.txt")
    assert files.read("a/b/c.txt") == "grün\n"
    assert files.read("/home/user/a/b/c.txt", format="bytes") == "grün\n".encode()
    assert b"".join(files.read("~/a/b/c.txt", format="stream")) == "grün\n".encode()
    assert world.sandbox.commands.run("cat a/b/c.txt").stdout == "grün\n"
    assert world.sandbox.commands.run("stat -c %U:%a a/b/c.txt").stdout.strip().endswith(":644")


def case_empty_and_large_files(world):
    files = world.sandbox.files
    files.write("empty", b"")
    assert files.read("empty") == ""
    large = os.urandom(5_000_000)
    files.write("/tmp/large", large)
    assert files.read("/tmp/large", format="bytes") == large
    files.write("/tmp/large", io.BytesIO(large[:100]))
    assert files.read("/tmp/large", format="bytes") == large[:100]


def case_pieces_gzip_and_octets(world):
    files = world.sandbox.files
    content = b"".join(bytes([n % 251]) * 1000 for n in range(3000))
    files.write("/tmp/pieces", (content[at:at + 65536] for at in range(0, len(content), 65536)))
    assert files.read("/tmp/pieces", format="bytes") == content
    files.write("/tmp/packed", content, gzip=True)
    assert files.read("/tmp/packed", format="bytes", gzip=True) == content
    files.write("/tmp/octets", content, use_octet_stream=True)
    assert files.read("/tmp/octets", format="bytes") == content


def case_several_at_a_time(world):
    files = world.sandbox.files
    written = files.write_files([{"path": f"many/{n}.txt", "data": f"{n}"} for n in range(10)])
    assert [one.path for one in written] == [f"/home/user/many/{n}.txt" for n in range(10)]
    assert [files.read(f"many/{n}.txt") for n in range(10)] == [str(n) for n in range(10)]
    assert files.write_files([]) == []


def case_names_with_spaces_and_other_scripts(world):
    files = world.sandbox.files
    for name in ("a b.txt", "grün.txt", "100%.txt", "q'uote.txt", "am&p=.txt", "plus+.txt"):
        files.write(f"/tmp/names/{name}", name)
        assert files.read(f"/tmp/names/{name}") == name
    assert len(files.list("/tmp/names")) == 6


def case_reading_what_is_not_there(world):
    files = world.sandbox.files
    expect.raises(NotFoundException, files.read, "/no/such/file")
    expect.raises(InvalidArgumentException, files.read, "/tmp")
    expect.raises(SandboxException, files.write, "/usr/no", "x")


def case_info_and_existence(world):
    files = world.sandbox.files
    files.write("/tmp/info.txt", "12345")
    info = files.get_info("/tmp/info.txt")
    assert (info.name, info.type, info.path, info.size) == ("info.txt", FileType.FILE, "/tmp/info.txt", 5)
    assert (info.mode, info.permissions, info.owner, info.group) == (0o644, "-rw-r--r--", "user", "user")
    assert abs(info.modified_time.timestamp() - time.time()) < 60
    assert info.symlink_target is None
    world.sandbox.commands.run("ln -sf /tmp/info.txt /tmp/info.link; mkdir -p /tmp/info.dir")
    link = files.get_info("/tmp/info.link")
    assert (link.type, link.symlink_target) == (FileType.SYMLINK, "/tmp/info.txt")
    assert (link.mode, link.permissions) == (0o644, "Lrwxrwxrwx"), link
    assert files.get_info("/tmp/info.dir").type == FileType.DIR
    assert files.exists("/tmp/info.txt") and files.exists("/tmp")
    assert not files.exists("/tmp/nothing") and not files.exists("/tmp/info.txt/below")
    expect.raises(NotFoundException, files.get_info, "/tmp/nothing")


def case_links_are_resolved_and_owners_have_names(world):
    """As E2B's agent describes them: a link by what it leads to, through other links, and one that leads nowhere by itself."""
    files = world.sandbox.files
    world.sandbox.commands.run(
        "mkdir -p /tmp/ends/real; chmod 750 /tmp/ends/real; cd /tmp/ends; ln -sfn real one; ln -sfn one two; ln -sfn gone loose; ln -sfn ring ring")
    listed = {one.name: one for one in files.list("/tmp/ends")}
    # The SDK leaves out of a list what its server gives no type.
    assert listed.keys() == {"real", "one", "two"}, listed
    for link in (listed["two"], files.get_info("/tmp/ends/two")):
        assert (link.type, link.symlink_target, link.mode) == (FileType.SYMLINK, "/tmp/ends/real", 0o750), link
    for name in ("loose", "ring"):
        link = files.get_info(f"/tmp/ends/{name}")
        assert (link.type, link.symlink_target, link.mode) == (FileType.SYMLINK, f"/tmp/ends/{name}", 0), link
    world.sandbox.commands.run("cd /tmp/ends; touch bits; chmod 6755 bits; mkdir -p shared; chmod 1777 shared")
    assert (files.get_info("/tmp/ends/bits").permissions, files.get_info("/tmp/ends/shared").permissions) == ("ugrwxr-xr-x", "dtrwxrwxrwx")
    # The rest of the host's files belongs to nobody inside, whose name is in the sandbox's own /etc/passwd.
    owners = world.sandbox.commands.run("stat -c '%U %G' /usr").stdout.split()
    usr = files.get_info("/usr")
    assert [usr.owner, usr.group] == owners, (usr, owners)


def case_directories_are_made_listed_and_removed(world):
    files = world.sandbox.files
    assert files.make_dir("/tmp/made/deep") is True
    assert files.make_dir("/tmp/made/deep") is False
    files.write("/tmp/made/deep/er/file", "x")
    files.write("/tmp/made/top", "xy")
    names = {(one.name, one.type) for one in files.list("/tmp/made")}
    assert names == {("deep", FileType.DIR), ("top", FileType.FILE)}
    assert {one.path for one in files.list("/tmp/made", depth=2)} == {"/tmp/made/deep", "/tmp/made/deep/er", "/tmp/made/top"}
    assert "/tmp/made/deep/er/file" in {one.path for one in files.list("/tmp/made", depth=3)}
    files.remove("/tmp/made")
    assert not files.exists("/tmp/made")
    files.remove("/tmp/made")
    expect.raises(NotFoundException, files.list, "/tmp/made")
    expect.raises(InvalidArgumentException, files.list, "/etc/hostname")


def case_files_are_renamed(world):
    files = world.sandbox.files
    files.write("/tmp/from.txt", "moved")
    moved = files.rename("/tmp/from.txt", "/tmp/new/place/to.txt")
    assert (moved.name, moved.path) == ("to.txt", "/tmp/new/place/to.txt")
    assert files.read("/tmp/new/place/to.txt") == "moved" and not files.exists("/tmp/from.txt")
    expect.raises(NotFoundException, files.rename, "/tmp/from.txt", "/tmp/elsewhere")


def case_files_of_root(world):
    files = world.sandbox.files
    files.write("own.txt", "mine", user="root")
    assert files.read("/root/own.txt", user="root") == "mine"
    expect.raises(SandboxException, files.read, "/root/own.txt")


def fetch(url, data=None, headers=None):
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def form(name, content):
    head = f'--XX\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return head.encode() + content + b"\r\n--XX--\r\n", {"Content-Type": "multipart/form-data; boundary=XX"}


def case_signed_addresses_read_and_write(world):
    sandbox = world.sandbox
    sandbox.files.write("/tmp/signed.txt", "signed")
    url = sandbox.download_url("/tmp/signed.txt")
    assert fetch(url) == (200, b"signed")
    timed = sandbox.download_url("/tmp/signed.txt", use_signature_expiration=60)
    assert fetch(timed) == (200, b"signed")
    body, headers = form("signed-up.txt", b"by form")
    status, answer = fetch(sandbox.upload_url("/tmp/signed-up.txt"), body, headers)
    assert status == 200, answer
    assert sandbox.files.read("/tmp/signed-up.txt") == "by form"


def case_a_signature_that_a_program_makes_itself_is_taken(world):
    from e2b import get_signature

    sandbox = world.sandbox
    sandbox.files.write("/tmp/own.txt", "own")

    def url(path, operation, **options):
        made = get_signature(path, operation, None, sandbox._envd_access_token, **options)
        given = {"path": path, "signature": made["signature"]}
        if made["expiration"] is not None:
            given["signature_expiration"] = made["expiration"]
        return f"{world.url}/files?{urllib.parse.urlencode(given)}"

    assert fetch(url("/tmp/own.txt", "read")) == (200, b"own")
    assert fetch(url("/tmp/own.txt", "read", expiration_in_seconds=60)) == (200, b"own")
    assert fetch(url("/tmp/own.txt", "write"))[0] == 401
    body, headers = form("own-up.txt", b"up")
    assert fetch(url("/tmp/own-up.txt", "write"), body, headers)[0] == 200
    assert sandbox.files.read("/tmp/own-up.txt") == "up"


def altered_text(signature):
    """With another letter in its middle."""
    return signature[:9] + ("b" if signature[9] == "a" else "a") + signature[10:]


def case_altered_signatures_are_refused(world):
    sandbox = world.sandbox
    sandbox.files.write("/tmp/signed.txt", "signed")
    url = sandbox.download_url("/tmp/signed.txt", use_signature_expiration=60)
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    for change in (
        {"path": "/etc/passwd"}, {"signature": altered_text(query["signature"])}, {"username": "root"},
        {"signature_expiration": str(int(query["signature_expiration"]) + 1000)}, {"signature_expiration": "1"},
        {"signature": ""}, {"signature": "v1_"},
    ):
        altered = parts._replace(query=urllib.parse.urlencode({**query, **change})).geturl()
        assert fetch(altered)[0] == 401, change
    assert fetch(parts._replace(query="path=/tmp/signed.txt").geturl())[0] == 401
    # Reading does not allow writing.
    body, headers = form("/tmp/signed.txt", b"x")
    assert fetch(url, body, headers)[0] == 401
    assert fetch(sandbox.download_url("/tmp/signed.txt", use_signature_expiration=7 * 86_400))[0] == 200
    assert fetch(sandbox.download_url("/tmp/signed.txt", use_signature_expiration=8 * 86_400))[0] == 401
    old = sandbox.download_url("/tmp/signed.txt", use_signature_expiration=1)
    assert expect.until(lambda: fetch(old)[0], lambda status: status == 401) == 401


def events(handle, wanted, patience=5.0):
    found, end = [], time.monotonic() + patience
    while len(found) < wanted and time.monotonic() < end:
        found += handle.get_new_events()
        time.sleep(0.05)
    return [(one.type, one.name) for one in found]


def case_a_watch_tells_an_upload_in_three_events(world):
    files = world.sandbox.files
    files.make_dir("/tmp/watched")
    handle = files.watch_dir("/tmp/watched")
    files.write("/tmp/watched/new.txt", "x")
    kinds = FilesystemEventType
    assert events(handle, 3) == [(kinds.CREATE, "new.txt"), (kinds.CHMOD, "new.txt"), (kinds.WRITE, "new.txt")]
    files.rename("/tmp/watched/new.txt", "/tmp/watched/other.txt")
    assert events(handle, 2) == [(kinds.RENAME, "new.txt"), (kinds.CREATE, "other.txt")]
    files.remove("/tmp/watched/other.txt")
    assert events(handle, 1) == [(kinds.REMOVE, "other.txt")]
    handle.stop()
    expect.raises(SandboxException, handle.get_new_events)


def case_a_watch_goes_down_the_tree_where_it_is_asked_to(world):
    files = world.sandbox.files
    files.make_dir("/tmp/tree/below")
    deep = files.watch_dir("/tmp/tree", recursive=True, include_entry=True)
    flat = files.watch_dir("/tmp/tree")
    files.write("/tmp/tree/below/a.txt", "12")
    found, end = [], time.monotonic() + 5
    while len(found) < 3 and time.monotonic() < end:
        found += deep.get_new_events()
        time.sleep(0.05)
    assert {one.name for one in found} == {"below/a.txt"}, found
    assert found[-1].entry.size == 2
    assert all("/" not in one.name for one in flat.get_new_events())
    deep.stop()
    flat.stop()


def case_what_cannot_be_watched_is_refused(world):
    expect.raises(NotFoundException, world.sandbox.files.watch_dir, "/tmp/no-such-directory")
    expect.raises(InvalidArgumentException, world.sandbox.files.watch_dir, "/etc/hostname")


def case_a_hundred_watchers_are_too_many_and_harm_nothing(world):
    files = world.sandbox.files
    files.make_dir("/tmp/crowd")
    handles, refused = [], 0
    for _ in range(100):
        try:
            handles.append(files.watch_dir("/tmp/crowd"))
        except SandboxException:
            refused += 1
    assert handles and refused
    files.write("/tmp/crowd/x", "x")
    assert len(events(handles[0], 3)) == 3
    for handle in handles:
        handle.stop()
    files.watch_dir("/tmp/crowd").stop()


def case_a_compressed_body_that_is_none_is_refused(world):
    sandbox = world.sandbox
    headers = {
        "E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983",
        "X-Access-Token": sandbox._envd_access_token, "Content-Type": "application/octet-stream", "Content-Encoding": "gzip",
    }
    address = f"{world.url}/files?path=/tmp/not-gzip"
    assert fetch(address, b"plain", headers)[0] == 400
    assert fetch(address, gzip.compress(b"x" * 100000)[:-20], headers)[0] == 400
    assert not sandbox.files.exists("/tmp/not-gzip")
