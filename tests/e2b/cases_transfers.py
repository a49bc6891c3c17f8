"""Uploads, downloads and signed addresses with the Python SDK, in the forms that are not the usual ones."""
import gzip
import io
import json
import os
import time
import urllib.parse

import pytest_like as expect
from e2b import FileType, InvalidArgumentException, NotEnoughSpaceException, NotFoundException, Sandbox, SandboxException
from e2b.exceptions import FileNotFoundException

from cases_files import altered_text, fetch, form
from cases_wire import ask, of_sandbox


def case_twenty_megabytes_in_a_stream(world):
    files = world.sandbox.files
    piece = os.urandom(1_000_000)
    files.write("/tmp/stream", (piece for _ in range(20)), use_octet_stream=True)
    assert sum(len(read) for read in files.read("/tmp/stream", format="stream")) == 20_000_000
    files.remove("/tmp/stream")


def case_a_file_that_is_written_again_is_shorter(world):
    files = world.sandbox.files
    files.write("/tmp/again", "a long text")
    files.write("/tmp/again", "short")
    assert files.read("/tmp/again") == "short"
    files.write("/tmp/again", b"")
    assert files.read("/tmp/again", format="bytes") == b""


def case_several_files_of_several_kinds(world):
    files = world.sandbox.files
    written = files.write_files([
        {"path": "/tmp/kinds/text", "data": "text"}, {"path": "/tmp/kinds/bytes", "data": b"\0\1"},
        {"path": "/tmp/kinds/file", "data": io.BytesIO(b"file")}, {"path": "kinds-relative", "data": "home"},
    ])
    assert [one.path for one in written] == ["/tmp/kinds/text", "/tmp/kinds/bytes", "/tmp/kinds/file", "/home/user/kinds-relative"]
    assert files.read("/tmp/kinds/bytes", format="bytes") == b"\0\1" and files.read("/tmp/kinds/file") == "file"


def case_several_files_packed_and_as_octets(world):
    files = world.sandbox.files
    entries = [{"path": f"/tmp/packs/{n}", "data": f"{n}" * 10_000} for n in range(5)]
    assert len(files.write_files(entries, gzip=True)) == 5
    assert all(files.read(f"/tmp/packs/{n}") == f"{n}" * 10_000 for n in range(5))
    assert len(files.write_files(entries, use_octet_stream=True)) == 5
    assert files.read("/tmp/packs/4", gzip=True) == "4" * 10_000


def case_a_download_is_packed_where_the_client_takes_it(world):
    text = b"the same line\n" * 200_000
    world.sandbox.files.write("/tmp/packed-down", text)
    target = "/files?path=/tmp/packed-down"
    status, body, headers = ask(world, "GET", target, None, of_sandbox(world, **{"Accept-Encoding": "br, gzip;q=0.5"}))
    assert (status, headers.get("content-encoding"), headers.get("content-length")) == (200, "gzip", None), headers
    assert len(body) < len(text) / 20 and gzip.decompress(body) == text
    for accepted in ("identity", "gzip;q=0", "br"):
        status, body, headers = ask(world, "GET", target, None, of_sandbox(world, **{"Accept-Encoding": accepted}))
        assert (status, body, headers.get("content-encoding")) == (200, text, None), (accepted, headers)
    noise = os.urandom(3_000_000)
    world.sandbox.files.write("/tmp/packed-down", noise)
    assert world.sandbox.files.read("/tmp/packed-down", format="bytes", gzip=True) == noise
    status, body, headers = ask(world, "GET", "/files?path=/tmp/no-such", None, of_sandbox(world, **{"Accept-Encoding": "gzip"}))
    assert status == 404 and json.loads(body)["code"] == 404 and "content-encoding" not in headers


def case_a_form_may_be_packed(world):
    parts = b"".join(
        b'--edge\r\nContent-Disposition: form-data; name="file"; filename="/tmp/form-%d"\r\n\r\n' % n + b"%d" % n * 300_000 + b"\r\n"
        for n in range(3)) + b"--edge--\r\n"
    headers = of_sandbox(world, **{"Content-Type": "multipart/form-data; boundary=edge", "Content-Encoding": "gzip"})
    status, body, _ = ask(world, "POST", "/files", gzip.compress(parts), headers)
    assert status == 200 and [one["path"] for one in json.loads(body)] == [f"/tmp/form-{n}" for n in range(3)], body
    assert world.sandbox.files.read("/tmp/form-2") == "2" * 300_000
    for bad in (parts, gzip.compress(parts)[:-8], gzip.compress(parts[:-8])):
        status, body, _ = ask(world, "POST", "/files", bad, headers)
        assert status == 400 and json.loads(body)["message"], (status, body)


def case_several_files_of_root(world):
    files = world.sandbox.files
    files.write_files([{"path": "root-1", "data": "1"}, {"path": "root-2", "data": "2"}], user="root")
    assert files.read("/root/root-2", user="root") == "2"
    assert world.sandbox.commands.run("stat -c %U /root/root-1", user="root").stdout == "root\n"


def case_a_file_cannot_be_where_a_directory_is(world):
    files = world.sandbox.files
    files.make_dir("/tmp/place")
    expect.raises(SandboxException, files.write, "/tmp/place", "x")
    files.write("/tmp/place/file", "x")
    expect.raises(SandboxException, files.write, "/tmp/place/file/below", "x")
    assert files.read("/tmp/place/file") == "x"


def case_a_directory_cannot_be_where_a_file_is(world):
    files = world.sandbox.files
    files.write("/tmp/taken", "x")
    expect.raises(InvalidArgumentException, files.make_dir, "/tmp/taken")
    assert files.read("/tmp/taken") == "x"


def case_links_are_followed_by_reading_and_writing(world):
    files = world.sandbox.files
    world.sandbox.commands.run("mkdir -p /tmp/l/real; ln -sfn real /tmp/l/dir; ln -sf real/file /tmp/l/file; ln -sf gone /tmp/l/loose")
    files.write("/tmp/l/dir/file", "through")
    assert files.read("/tmp/l/file") == "through" and files.read("/tmp/l/real/file") == "through"
    listed = {one.name: one for one in files.list("/tmp/l")}
    assert listed["real"].type == FileType.DIR and listed["file"].symlink_target is not None
    expect.raises(NotFoundException, files.read, "/tmp/l/loose")
    # Removing a link leaves its target.
    files.remove("/tmp/l/dir")
    assert files.read("/tmp/l/real/file") == "through"


def case_a_path_with_dots_stays_inside(world):
    files = world.sandbox.files
    files.write("/tmp/a/../dots.txt", "dots")
    assert files.read("/tmp/dots.txt") == "dots"
    assert files.read("/../../../tmp/dots.txt") == "dots"
    expect.raises(SandboxException, files.write, "../../usr/no", "x")


def case_directories_move_with_what_is_in_them(world):
    files = world.sandbox.files
    files.write("/tmp/move/a/b.txt", "b")
    moved = files.rename("/tmp/move", "/tmp/moved")
    assert (moved.type, moved.path) == (FileType.DIR, "/tmp/moved")
    assert files.read("/tmp/moved/a/b.txt") == "b" and not files.exists("/tmp/move")
    files.write("/tmp/moved/c.txt", "c")
    files.rename("/tmp/moved/c.txt", "/tmp/moved/a/b.txt")
    assert files.read("/tmp/moved/a/b.txt") == "c"
    files.remove("/tmp/moved")


def case_rights_are_those_of_the_user(world):
    files = world.sandbox.files
    world.sandbox.commands.run("mkdir -m 700 -p /root/own; echo secret > /root/own/file", user="root")
    expect.raises(SandboxException, files.read, "/root/own/file")
    expect.raises(SandboxException, files.write, "/root/own/new", "x")
    expect.raises(SandboxException, files.remove, "/root/own/file")
    expect.raises(SandboxException, files.list, "/root/own")
    assert files.read("/root/own/file", user="root") == "secret\n"


def case_modes_and_owners_are_told(world):
    files = world.sandbox.files
    world.sandbox.commands.run("cd /tmp; touch tool; chmod 4751 tool; mkdir -p sticky; chmod 1777 sticky")
    tool = files.get_info("/tmp/tool")
    assert tool.mode & 0o777 == 0o751 and tool.permissions.endswith("x--x"), (oct(tool.mode), tool.permissions)
    assert files.get_info("/etc/hostname").owner == "root"
    assert files.get_info("/tmp/sticky").permissions.startswith("d")


def case_depths_of_a_list(world):
    files = world.sandbox.files
    files.write("/tmp/depth/1/2/3/4.txt", "4")
    assert len(files.list("/tmp/depth", depth=10)) == 4
    assert files.list("/tmp/depth/1/2/3/4.txt/..")[0].name == "4.txt"
    expect.raises(InvalidArgumentException, files.list, "/tmp/depth", depth=0)


def case_a_thousand_files_are_listed(world):
    world.sandbox.commands.run("mkdir -p /tmp/thousand; cd /tmp/thousand; seq 1 1000 | xargs touch")
    assert {one.name for one in world.sandbox.files.list("/tmp/thousand")} == {str(n) for n in range(1, 1001)}


def case_a_full_disk_is_its_own_exception(world):
    with Sandbox.create() as sandbox:
        sandbox.commands.run("fallocate -l 1000M full; head -c 200M /dev/zero > rest || true", timeout=60)
        expect.raises(NotEnoughSpaceException, sandbox.files.write, "more", b"x" * 5_000_000)
        sandbox.commands.run("rm -f full rest more")
        sandbox.files.write("more", b"x" * 5_000_000)


def case_a_missing_file_is_the_newer_exception_too(world):
    expect.raises(FileNotFoundException, world.sandbox.files.read, "/tmp/never")
    expect.raises(FileNotFoundException, world.sandbox.files.list, "/tmp/never")
    expect.raises(FileNotFoundException, world.sandbox.files.get_info, "/tmp/never")


def case_signed_addresses_of_a_user(world):
    sandbox = world.sandbox
    sandbox.files.write("/root/signed", "of root", user="root")
    assert fetch(sandbox.download_url("/root/signed", user="root")) == (200, b"of root")
    status, _ = fetch(sandbox.download_url("/root/signed", user="user"))
    assert status in (400, 401, 403, 404), status
    body, headers = form("ignored", b"written")
    assert fetch(sandbox.upload_url("/root/signed-too", user="root"), body, headers)[0] == 200
    assert sandbox.files.read("/root/signed-too", user="root") == "written"


def case_an_address_for_writing_ends_and_only_writes(world):
    sandbox = world.sandbox
    url = sandbox.upload_url("/tmp/up.txt", use_signature_expiration=60)
    body, headers = form("/tmp/elsewhere.txt", b"1")
    assert fetch(url, body, headers)[0] == 200
    assert sandbox.files.read("/tmp/up.txt") == "1" and not sandbox.files.exists("/tmp/elsewhere.txt")
    assert fetch(url)[0] == 401, "it does not read"
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    for change in ({"path": "/tmp/other"}, {"signature": altered_text(query["signature"])}, {"signature_expiration": str(int(time.time()) - 5)}):
        altered = parts._replace(query=urllib.parse.urlencode({**query, **change})).geturl()
        assert fetch(altered, body, headers)[0] == 401, change


def case_an_address_ends_with_its_sandbox(world):
    sandbox = Sandbox.create()
    sandbox.files.write("/tmp/a", "a")
    url = sandbox.download_url("/tmp/a")
    assert fetch(url) == (200, b"a")
    sandbox.kill()
    assert fetch(url)[0] in (401, 404, 502)


def case_a_signed_address_says_what_is_missing(world):
    status, body = fetch(world.sandbox.download_url("/tmp/never"))
    assert status == 404 and b"/tmp/never" in body, (status, body)
    status, body = fetch(world.sandbox.download_url("/tmp"))
    assert status == 400, (status, body)
