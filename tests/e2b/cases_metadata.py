"""Metadata of files: extended attributes that the sandbox's own programs see too."""
import pytest_like as expect
from e2b import AsyncSandbox, SandboxException

KEPT = {"owner": "me", "purpose": "a b"}


def case_metadata_is_kept_with_the_file(world):
    files = world.sandbox.files
    written = files.write("/home/user/meta.txt", "x", metadata=KEPT)
    assert written.metadata == KEPT, written
    assert files.get_info("/home/user/meta.txt").metadata == KEPT
    listed = {entry.name: entry.metadata for entry in files.list("/home/user")}
    assert listed["meta.txt"] == KEPT, listed
    shown = world.sandbox.commands.run(
        "python3 -c \"import os; print(os.getxattr('/home/user/meta.txt', 'user.e2b.owner').decode())\"")
    assert shown.stdout == "me\n"


def case_a_file_that_is_written_anew_has_the_new_metadata(world):
    files = world.sandbox.files
    files.write("/home/user/anew.txt", "x", metadata=KEPT)
    assert files.write("/home/user/anew.txt", "y").metadata is None
    assert files.get_info("/home/user/anew.txt").metadata is None
    files.write("/home/user/anew.txt", "z", metadata={"owner": "you"})
    moved = files.rename("/home/user/anew.txt", "/home/user/moved.txt")
    assert moved.metadata == {"owner": "you"}, "a file keeps it at its new place"


def case_all_files_of_one_request_have_it(world):
    written = world.sandbox.files.write_files(
        [{"path": f"/home/user/many/{name}", "data": name} for name in ("a", "b")], metadata=KEPT)
    assert [entry.metadata for entry in written] == [KEPT, KEPT], written


def case_attributes_of_programs_inside_are_not_metadata(world):
    world.sandbox.commands.run(
        "python3 -c \"import os; open('/home/user/own','w'); os.setxattr('/home/user/own', 'user.other', b'1')\"")
    assert world.sandbox.files.get_info("/home/user/own").metadata is None


def case_more_than_a_file_takes_is_refused(world):
    large = {f"key{number}": "x" * 1000 for number in range(5)}
    refused = expect.raises(SandboxException, world.sandbox.files.write, "/home/user/large", "x", metadata=large)
    assert "3072" in str(refused), refused
    assert not world.sandbox.files.exists("/home/user/large")


async def case_it_works_for_programs_that_do_not_wait(world):
    sandbox = await AsyncSandbox.create()
    written = await sandbox.files.write("meta.txt", b"x", metadata=KEPT, use_octet_stream=True)
    assert written.metadata == KEPT
    assert (await sandbox.files.get_info("meta.txt")).metadata == KEPT
    await sandbox.kill()
