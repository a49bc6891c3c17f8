"""Volumes with both flavours of the Python SDK: make, find, remove, their files, and in sandboxes."""
import asyncio
import contextlib
import io
import json
import urllib.error
import urllib.request
import uuid

import pytest_like as expect
from e2b import AsyncSandbox, AsyncVolume, AuthenticationException, Sandbox, SandboxException, Volume
from e2b.exceptions import NotFoundException, VolumeException


def name():
    return f"v-{uuid.uuid4().hex[:12]}"


@contextlib.contextmanager
def volume(**options):
    made = Volume.create(name(), **options)
    try:
        yield made
    finally:
        Volume.destroy(made.volume_id, **options)


@contextlib.asynccontextmanager
async def async_volume():
    made = await AsyncVolume.create(name())
    try:
        yield made
    finally:
        await AsyncVolume.destroy(made.volume_id)


def ask(world, method, target, token=None, body=None, headers=None):
    """A request that the SDK would never send: its status, and its body."""
    request = urllib.request.Request(world.url + target, method=method, data=body, headers=headers or {})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def case_a_volume_is_made_found_listed_and_removed(world):
    wanted = name()
    made = Volume.create(wanted)
    assert made.name == wanted and made.token
    assert Volume.get_info(made.volume_id).name == wanted
    assert wanted in [one.name for one in Volume.list()]
    again = Volume.connect(made.volume_id)
    again.write_file("/a", "through the second")
    assert made.read_file("/a") == "through the second"
    assert Volume.destroy(made.volume_id) is True
    assert Volume.destroy(made.volume_id) is False
    assert wanted not in [one.name for one in Volume.list()]


def case_text_bytes_streams_and_nothing_at_all(world):
    with volume() as box:
        box.write_file("/text", "grün")
        box.write_file("/bytes", b"\x00\xff")
        box.write_file("/stream", io.BytesIO(b"streamed"))
        box.write_file("/lines", io.StringIO("one\ntwo\n"))
        box.write_file("/empty", "")
        assert box.read_file("/text") == "grün"
        assert box.read_file("/bytes", format="bytes") == b"\x00\xff"
        assert b"".join(box.read_file("/stream", format="stream")) == b"streamed"
        assert box.read_file("/lines") == "one\ntwo\n"
        assert box.read_file("/empty") == ""


def case_a_large_file_comes_back_byte_for_byte(world):
    large = bytes(range(256)) * (20 << 10)
    with volume() as box:
        assert box.write_file("/large", io.BytesIO(large)).size == len(large)
        assert box.read_file("/large", format="bytes") == large
        assert b"".join(box.read_file("/large", format="stream")) == large


def case_a_file_is_described(world):
    with volume() as box:
        written = box.write_file("/dir/file.txt", "12345", mode=0o600, uid=1000, gid=1000)
        found = box.get_info("/dir/file.txt")
        assert found == written
        assert (found.name, found.path, found.type.value, found.size) == ("file.txt", "/dir/file.txt", "file", 5)
        assert (found.mode, found.uid, found.gid) == (0o600, 1000, 1000)
        assert found.mtime.tzinfo and found.ctime and found.atime
        root = box.get_info("/")
        assert (root.path, root.type.value) == ("/", "directory")


def case_a_file_is_replaced(world):
    with volume() as box:
        box.write_file("/a", "first, and longer")
        box.write_file("/a", "second")
        assert box.read_file("/a") == "second"
        box.write_file("/a", "third", force=True)
        assert box.read_file("/a") == "third"


def case_what_is_not_there_is_not_found(world):
    with volume() as box:
        assert box.exists("/missing") is False
        for call in (box.read_file, box.get_info, box.list, box.remove):
            expect.raises(NotFoundException, call, "/missing")
        expect.raises(NotFoundException, box.update_metadata, "/missing", mode=0o644)
        expect.raises(NotFoundException, box.make_dir, "/missing/below")
        expect.raises(NotFoundException, list, box.read_file("/missing", format="stream"))
    expect.raises(NotFoundException, Volume.get_info, "no-such-volume")
    expect.raises(NotFoundException, Volume.connect, "no-such-volume")


def case_directories_are_made_and_listed(world):
    with volume() as box:
        made = box.make_dir("/one", mode=0o700)
        assert (made.type.value, made.mode, made.path) == ("directory", 0o700, "/one")
        box.make_dir("/deep/er/still", force=True)
        box.make_dir("/one", force=True)
        expect.raises(VolumeException, box.make_dir, "/one")
        box.write_file("/deep/file", "x")
        assert sorted(entry.name for entry in box.list("/")) == ["deep", "one"]
        assert sorted(entry.path for entry in box.list("/deep")) == ["/deep/er", "/deep/file"]
        assert sorted(entry.path for entry in box.list("/deep", depth=2)) == [
            "/deep/er", "/deep/er/still", "/deep/file"]
        assert box.list("/one") == []
        assert "no directory" in str(expect.raises(VolumeException, box.list, "/deep/file"))


def case_modes_change_and_owners_do_not(world):
    with volume() as box:
        box.write_file("/run.sh", "true")
        assert box.update_metadata("/run.sh", mode=0o755).mode == 0o755
        assert box.update_metadata("/run.sh", uid=1000).mode == 0o755
        assert "uid 1001" in str(expect.raises(VolumeException, box.update_metadata, "/run.sh", uid=1001))
        assert "gid 0" in str(expect.raises(VolumeException, box.write_file, "/x", "x", gid=0))
        assert not box.exists("/x")


def case_files_and_directories_are_removed(world):
    with volume() as box:
        box.write_file("/dir/a", "a")
        box.write_file("/b", "b")
        box.remove("/b")
        box.remove("/dir")
        assert box.list("/") == []


def case_paths_that_lead_out_are_refused(world):
    with volume() as box:
        long_name, long_path = "n" * 256, "/".join(["d" * 200] * 30)
        for path in ("/../x", "a/../../etc/passwd", "/a//b", "/./a", "a\x00b", long_name, long_path):
            for call in (box.get_info, box.read_file, box.remove, box.list, box.make_dir):
                expect.raises(VolumeException, call, path)
            expect.raises(VolumeException, box.write_file, path, "x")
        assert "`..`" in str(expect.raises(VolumeException, box.read_file, "/../x"))
        expect.raises(VolumeException, box.remove, "/")
        expect.raises(VolumeException, box.write_file, "/", "x")
        assert box.list("/") == []


def case_a_directory_is_no_file_and_a_file_no_directory(world):
    with volume() as box:
        box.make_dir("/dir")
        box.write_file("/file", "x")
        assert "directory" in str(expect.raises(VolumeException, box.read_file, "/dir"))
        expect.raises(VolumeException, box.write_file, "/dir", "x")
        expect.raises(VolumeException, box.write_file, "/file/below", "x")
        expect.raises(VolumeException, box.make_dir, "/file", force=True)


def case_odd_names_are_kept(world):
    with volume() as box:
        for odd in ("a b", "grün", "100%", "a+b&c=d?e#f", "'\"\\", "\n"):
            box.write_file(f"/{odd}", odd)
            assert box.read_file(f"/{odd}") == odd
        assert len(box.list("/")) == 6


def case_a_wrong_token_opens_nothing(world):
    with volume() as box, volume() as other:
        box.write_file("/a", "mine")
        altered = box.token[:-1] + ("0" if box.token[-1] != "0" else "1")
        for wrong in ("x", "a.b.c", box.token[:-1], altered, other.token, world.key):
            expect.raises(AuthenticationException, box.read_file, "/a", token=wrong)
            expect.raises(AuthenticationException, box.write_file, "/a", "changed", token=wrong)
        assert ask(world, "GET", f"/volumecontent/{box.volume_id}/file?path=a")[0] == 401
        assert box.read_file("/a") == "mine"


def case_another_tenants_volume_is_not_there(world):
    with volume() as box:
        expect.raises(NotFoundException, Volume.connect, box.volume_id, api_key=world.other_key)
        assert Volume.destroy(box.volume_id, api_key=world.other_key) is False
        assert box.name not in [one.name for one in Volume.list(api_key=world.other_key)]
        for target in (f"e2b%2F{box.name}", f"e2b/{box.name}"):
            status, _ = ask(world, "GET", f"/volumes/{target}", headers={"X-API-KEY": world.other_key})
            assert status == 404 or status == 501, status
        same = Volume.create(box.name, api_key=world.other_key)
        try:
            # The token names its tenant: it opens that tenant's volume of the name, which is empty.
            same.write_file("/a", "theirs")
            expect.raises(NotFoundException, same.read_file, "/a", token=box.token)
            error = expect.raises(SandboxException, Sandbox.create, volume_mounts={"/mnt/x": box}, api_key=world.reading_key)
            assert "read-only" in str(error), error
        finally:
            Volume.destroy(same.volume_id, api_key=world.other_key)


def case_a_token_ends_with_its_key(world):
    variables = world.server.variables("--tenant", "e2b")
    with volume() as box:
        own = Volume.connect(box.volume_id, api_key=variables["E2B_API_KEY"])
        own.write_file("/a", "a")
        token_id = own.token.split(".")[0]
        world.server.run("token", "revoke", token_id)
        expect.raises(AuthenticationException, own.read_file, "/a")
        assert box.read_file("/a") == "a"


def case_a_token_of_a_removed_volume_does_not_open_the_next(world):
    first = Volume.create(name())
    first.write_file("/a", "a")
    Volume.destroy(first.volume_id)
    second = Volume.create(first.name)
    try:
        expect.raises(NotFoundException, first.read_file, "/a")
        assert second.list("/") == []
    finally:
        Volume.destroy(second.volume_id)


def case_a_read_only_key_reads(world):
    with volume() as box:
        box.write_file("/a", "a")
        reading = Volume.connect(box.volume_id, api_key=world.reading_key)
        assert reading.read_file("/a") == "a"
        expect.raises(VolumeException, reading.write_file, "/a", "b")
        expect.raises(VolumeException, reading.remove, "/a")
        expect.raises(VolumeException, Volume.create, name(), api_key=world.reading_key)
        assert box.read_file("/a") == "a"


def case_a_name_is_taken_once_and_bad_ones_are_refused(world):
    with volume() as box:
        assert "already" in str(expect.raises(VolumeException, Volume.create, box.name))
    for bad in ("", "a", "a/b", "../x", "a b", "x" * 300):
        expect.raises(VolumeException, Volume.create, bad)


def case_more_than_the_quota_is_refused(world):
    key = world.server.variables("--tenant", "other")["E2B_API_KEY"]
    world.server.run("quota", "other", "--volume-bytes", "1MiB")
    try:
        with volume(api_key=key) as box:
            box.write_file("/small", b"x" * 1000)
            error = expect.raises(VolumeException, box.write_file, "/large", b"x" * (2 << 20))
            assert "allowed" in str(error), error
            assert [entry.name for entry in box.list("/")] == ["small"]
    finally:
        world.server.run("quota", "other", "--volume-bytes", "100GiB")


def case_what_the_sdk_would_never_send_is_refused(world):
    with volume() as box:
        base = f"/volumecontent/{box.volume_id}"
        for method, target in (("GET", "/file"), ("GET", "/dir?path=%2F&depth=0"), ("GET", "/dir?path=a&depth=x"),
                               ("PUT", "/file?path=a&mode=99999999"), ("POST", "/dir?path=a&mode=-1")):
            status, body = ask(world, method, base + target, box.token)
            assert status == 400 and isinstance(json.loads(body)["code"], str), (target, status, body)
        status, _ = ask(world, "PATCH", base + "/path?path=a", box.token, b"[[[")
        assert status == 400
        status, body = ask(world, "POST", base + "/file?path=a", box.token)
        assert status == 501 and b"POST" in body, (status, body)


def case_a_sandbox_has_a_volume_and_leaves_a_version(world):
    with volume() as box:
        box.write_file("/from-outside", "outside")
        with Sandbox.create(volume_mounts={"/mnt/data": box}) as sandbox:
            assert sandbox.commands.run("cat /mnt/data/from-outside; id -u; stat -c %u /mnt/data/from-outside").stdout \
                == "outside1000\n1000\n"
            sandbox.commands.run("echo inside > /mnt/data/from-inside; chmod 640 /mnt/data/from-inside")
        assert box.read_file("/from-inside") == "inside\n"
        assert box.get_info("/from-inside").mode == 0o640
        with Sandbox.create(volume_mounts={"/mnt/again": box.name}) as sandbox:
            assert sandbox.files.read("/mnt/again/from-inside") == "inside\n"


def case_the_content_api_and_a_running_sandbox_see_each_other(world):
    with volume() as box:
        with Sandbox.create(volume_mounts={"/mnt/data": box}) as sandbox:
            for number in range(3):
                sandbox.files.write("/mnt/data/a", f"inside {number}")
                assert box.read_file("/a") == f"inside {number}"
                box.write_file("/b/c", f"outside {number}", mode=0o600)
                assert sandbox.files.read("/mnt/data/b/c") == f"outside {number}"
            assert box.get_info("/b/c").mode == 0o600
            box.make_dir("/made", mode=0o750)
            box.update_metadata("/a", mode=0o444)
            said = sandbox.commands.run("stat -c '%a %U' /mnt/data/made /mnt/data/a").stdout
            assert [line.split()[0] for line in said.splitlines()] == ["750", "444"], said
            box.remove("/b")
            assert sorted(sandbox.commands.run("ls /mnt/data").stdout.split()) == ["a", "made"]
            assert sorted(entry.name for entry in box.list("/")) == ["a", "made"]
        assert box.read_file("/a") == "inside 2"


def case_a_link_that_leads_out_is_not_followed(world):
    with volume() as box:
        with Sandbox.create(volume_mounts={"/mnt/data": box}) as sandbox:
            sandbox.commands.run("cd /mnt/data; ln -s /etc/passwd link; ln -s /tmp out; ln -s ../../../.. up; echo x > /tmp/x")
            for holding in (True, False):
                found = box.get_info("/link")
                assert (found.type.value, found.target) == ("symlink", "/etc/passwd")
                assert "symbolic link" in str(expect.raises(VolumeException, box.read_file, "/link"))
                for path in ("/out/x", "/up/etc/passwd"):
                    expect.raises(NotFoundException, box.read_file, path)
                    expect.raises(VolumeException, box.write_file, path, "written")
                expect.raises(VolumeException, box.write_file, "/link", "written")
                expect.raises(VolumeException, box.update_metadata, "/link", mode=0o777)
                if holding:
                    assert sandbox.files.read("/tmp/x") == "x\n"
                    sandbox.kill()
        box.remove("/link")
        assert sorted(entry.name for entry in box.list("/")) == ["out", "up"]


def case_a_second_sandbox_waits_for_the_first(world):
    with volume() as box:
        with Sandbox.create(volume_mounts={"/mnt/data": box}) as sandbox:
            error = expect.raises(SandboxException, Sandbox.create, volume_mounts={"/mnt/data": box})
            assert sandbox.sandbox_id in str(error), error
            assert "written to" in str(expect.raises(VolumeException, Volume.destroy, box.volume_id))
        Sandbox.create(volume_mounts={"/mnt/data": box}).kill()


def case_mounts_that_cannot_be_are_refused(world):
    with volume() as box:
        error = expect.raises(SandboxException, Sandbox.create, volume_mounts={"/mnt/x": "no-such-volume"})
        assert "no-such-volume" in str(error)
        for path in ("/etc", "/", "/mnt/../etc/x", "relative/../../x"):
            expect.raises(SandboxException, Sandbox.create, volume_mounts={path: box})
        expect.raises(SandboxException, Sandbox.create, volume_mounts={"/mnt/a": box, "/mnt/b": box})
        with Sandbox.create(volume_mounts={"/home/user/data": box}) as sandbox:
            sandbox.files.write("data/a", "at home")
            mounts = ask(world, "GET", f"/sandboxes/{sandbox.sandbox_id}", headers={"X-API-KEY": world.key})[1]
            assert json.loads(mounts)["volumeMounts"][0]["name"] == box.name
        assert box.read_file("/a") == "at home"


def case_a_paused_sandbox_keeps_its_volume(world):
    with volume() as box:
        sandbox = Sandbox.create(volume_mounts={"/mnt/data": box})
        try:
            sandbox.files.write("/mnt/data/a", "before")
            sandbox.pause()
            assert box.read_file("/a") == "before"
            expect.raises(VolumeException, box.write_file, "/b", "x")
            resumed = Sandbox.connect(sandbox.sandbox_id)
            resumed.files.write("/mnt/data/a", "after")
            assert box.read_file("/a") == "after"
        finally:
            Sandbox.kill(sandbox.sandbox_id)


def case_the_server_s_own_command_sees_the_same(world):
    with volume() as box:
        box.write_file("/a", "a")
        assert world.server.run("volume", "get", f"e2b/{box.name}", "a") == "a"
        world.server.run("volume", "mkdir", f"e2b/{box.name}", "x/y", "--parents")
        world.server.run("volume", "chmod", f"e2b/{box.name}", "700", "x/y")
        assert box.get_info("/x/y").mode == 0o700


async def case_async_volumes_and_their_files(world):
    async with async_volume() as box:
        assert box.name in [one.name for one in await AsyncVolume.list()]
        assert (await AsyncVolume.get_info(box.volume_id)).name == box.name
        await box.write_file("/dir/a", "grün", mode=0o600)
        assert await box.read_file("/dir/a") == "grün"
        assert await box.read_file("/dir/a", format="bytes") == "grün".encode()
        pieces = [piece async for piece in await box.read_file("/dir/a", format="stream")]
        assert b"".join(pieces) == "grün".encode()
        assert (await box.get_info("/dir/a")).mode == 0o600
        assert (await box.update_metadata("/dir/a", mode=0o644)).mode == 0o644
        assert await box.exists("/dir") and not await box.exists("/missing")
        assert [entry.path for entry in await box.list("/dir")] == ["/dir/a"]
        await box.make_dir("/x/y", force=True)
        await box.remove("/x")
        assert [entry.name for entry in await box.list("/")] == ["dir"]


async def case_async_twenty_writers_at_once(world):
    async with async_volume() as box:
        await asyncio.gather(*(box.write_file(f"/{number}", str(number)) for number in range(20)))
        assert len(await box.list("/")) == 20
        read = await asyncio.gather(*(box.read_file(f"/{number}") for number in range(20)))
        assert read == [str(number) for number in range(20)]


async def case_async_bad_input(world):
    async with async_volume() as box:
        await expect.raises_later(NotFoundException, box.read_file("/missing"))
        await expect.raises_later(VolumeException, box.write_file("/../x", "x"))
        await expect.raises_later(VolumeException, box.write_file("/x", "x", uid=7))
        await expect.raises_later(AuthenticationException, box.read_file("/a", token="wrong"))
        await expect.raises_later(NotFoundException, AsyncVolume.connect(box.volume_id, api_key=world.other_key))
    assert await AsyncVolume.destroy(box.volume_id) is False


async def case_async_a_sandbox_and_the_content_api(world):
    async with async_volume() as box:
        sandbox = await AsyncSandbox.create(volume_mounts={"/mnt/data": box})
        try:
            await sandbox.files.write("/mnt/data/a", "inside")
            assert await box.read_file("/a") == "inside"
            await box.write_file("/b", "outside")
            assert await sandbox.files.read("/mnt/data/b") == "outside"
        finally:
            await sandbox.kill()
        assert sorted(entry.name for entry in await box.list("/")) == ["a", "b"]
