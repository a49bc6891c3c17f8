"""The git helpers of E2B's Python SDK against a real git server, through the gate."""
import pytest_like as expect
from e2b import AsyncSandbox, Sandbox, SandboxException
from e2b.exceptions import GitAuthException, GitUpstreamException

PUBLIC, PRIVATE = "http://git.example/git/public.git", "http://git.example/git/private.git"
ANN = {"username": "ann", "password": "pass-word"}
AUTHOR = {"author_name": "Ann", "author_email": "ann@example.com"}


def first_commit(sandbox, place, text):
    git = sandbox.git
    git.init(place, initial_branch="main")
    sandbox.files.write(f"{place}/a.txt", text)
    git.add(place)
    git.commit(place, "first", **AUTHOR)


def case_a_branch_is_pushed_cloned_and_pulled(world):
    sandbox, git = world.sandbox, world.sandbox.git
    first_commit(sandbox, "/tmp/source", "one")
    git.remote_add("/tmp/source", "origin", PUBLIC)
    assert git.remote_get("/tmp/source", "origin") == PUBLIC
    git.push("/tmp/source", remote="origin", branch="main")
    git.clone(PUBLIC, "/tmp/copy")
    assert sandbox.files.read("/tmp/copy/a.txt") == "one"
    sandbox.files.write("/tmp/source/a.txt", "two")
    git.add("/tmp/source", files=["a.txt"], all=False)
    git.commit("/tmp/source", "second", **AUTHOR)
    status = git.status("/tmp/source")
    assert (status.current_branch, status.upstream, status.ahead, status.behind) == ("main", "origin/main", 1, 0)
    git.push("/tmp/source")
    git.pull("/tmp/copy")
    assert sandbox.files.read("/tmp/copy/a.txt") == "two"


def case_a_clone_of_a_branch_and_depth(world):
    git = world.sandbox.git
    git.clone(PUBLIC, "/tmp/shallow", branch="main", depth=1)
    assert world.sandbox.commands.run("git -C /tmp/shallow rev-list --count HEAD").stdout == "1\n"
    expect.raises(SandboxException, git.clone, PUBLIC, "/tmp/no-branch", branch="no-such-branch")


def case_a_private_repository_wants_a_password(world):
    git = world.sandbox.git
    expect.raises(GitAuthException, git.clone, PRIVATE, "/tmp/private")
    expect.raises(GitAuthException, git.clone, PRIVATE, "/tmp/private", username="ann", password="wrong")
    first_commit(world.sandbox, "/tmp/own", "private")
    git.remote_add("/tmp/own", "origin", PRIVATE)
    expect.raises(GitAuthException, git.push, "/tmp/own", remote="origin", branch="main")
    git.push("/tmp/own", remote="origin", branch="main", **ANN)
    git.clone(PRIVATE, "/tmp/private", **ANN)
    assert world.sandbox.files.read("/tmp/private/a.txt") == "private"
    # The password stays in neither of the two.
    assert git.remote_get("/tmp/private", "origin") == PRIVATE == git.remote_get("/tmp/own", "origin")
    git.pull("/tmp/private", **ANN)


def case_a_branch_without_an_upstream_says_so(world):
    first_commit(world.sandbox, "/tmp/alone", "x")
    expect.raises(GitUpstreamException, world.sandbox.git.pull, "/tmp/alone")


def case_changes_are_reset_and_restored(world):
    sandbox, git = world.sandbox, world.sandbox.git
    first_commit(sandbox, "/tmp/changes", "kept")
    sandbox.files.write("/tmp/changes/a.txt", "changed")
    (change,) = git.status("/tmp/changes").file_status
    assert (change.name, change.status, change.staged) == ("a.txt", "modified", False)
    git.add("/tmp/changes")
    git.restore("/tmp/changes", ["a.txt"], staged=True)
    git.restore("/tmp/changes", ["a.txt"])
    assert sandbox.files.read("/tmp/changes/a.txt") == "kept" and git.status("/tmp/changes").is_clean
    sandbox.files.write("/tmp/changes/a.txt", "again")
    git.reset("/tmp/changes", mode="hard")
    assert sandbox.files.read("/tmp/changes/a.txt") == "kept"


def case_branches_are_made_changed_and_removed(world):
    git = world.sandbox.git
    first_commit(world.sandbox, "/tmp/branches", "x")
    git.create_branch("/tmp/branches", "side")
    found = git.branches("/tmp/branches")
    assert (sorted(found.branches), found.current_branch) == (["main", "side"], "side")
    git.checkout_branch("/tmp/branches", "main")
    git.delete_branch("/tmp/branches", "side")
    assert git.branches("/tmp/branches").branches == ["main"]


def case_settings_are_kept(world):
    git = world.sandbox.git
    git.init("/tmp/settings")
    git.set_config("core.editor", "none", scope="local", path="/tmp/settings")
    assert git.get_config("core.editor", scope="local", path="/tmp/settings") == "none"
    git.configure_user("Ann", "ann@example.com")
    assert git.get_config("user.email") == "ann@example.com"


def case_a_login_for_a_host_stays_inside(world):
    with Sandbox.create() as sandbox:
        expect.raises(GitAuthException, sandbox.git.clone, PRIVATE, "/tmp/private")
        sandbox.git.dangerously_authenticate(**ANN, host="git.example", protocol="http")
        sandbox.git.clone(PRIVATE, "/tmp/private")
        assert sandbox.git.remote_get("/tmp/private", "origin") == PRIVATE


def case_a_closed_sandbox_clones_nothing(world):
    with Sandbox.create(network={"allow_out": ["web.example"], "deny_out": ["0.0.0.0/0"]}) as sandbox:
        expect.raises(SandboxException, sandbox.git.clone, PUBLIC, "/tmp/copy")
        sandbox.update_network({"allow_out": ["git.example"], "deny_out": ["0.0.0.0/0"]})
        sandbox.git.clone(PUBLIC, "/tmp/copy")


def case_a_login_that_is_kept_is_for_its_host(world):
    with Sandbox.create() as sandbox:
        git = sandbox.git
        first_commit(sandbox, "/tmp/kept", "kept")
        git.create_branch("/tmp/kept", "of-the-kept-login")
        git.dangerously_authenticate(**ANN, host="git.example", protocol="http")
        git.remote_add("/tmp/kept", "origin", PRIVATE)
        git.push("/tmp/kept", remote="origin", branch="of-the-kept-login")
        git.clone(PRIVATE, "/tmp/kept-copy", branch="of-the-kept-login")
        assert sandbox.files.read("/tmp/kept-copy/a.txt") == "kept"
        # It stays in the sandbox, as the name of the method says; another has none.
        assert "pass-word" in sandbox.commands.run("cat ~/.git-credentials").stdout
    with Sandbox.create() as other:
        expect.raises(GitAuthException, other.git.clone, PRIVATE, "/tmp/copy")
        other.git.dangerously_authenticate("ann", "wrong", host="git.example", protocol="http")
        expect.raises(GitAuthException, other.git.clone, PRIVATE, "/tmp/copy")


async def case_the_other_flavour_clones_and_is_refused(world):
    sandbox = await AsyncSandbox.create()
    try:
        await sandbox.git.clone(PUBLIC, "/tmp/copy")
        assert (await sandbox.git.status("/tmp/copy")).upstream == "origin/main"
        await expect.raises_later(GitAuthException, sandbox.git.clone(PRIVATE, "/tmp/private"))
        await sandbox.git.clone(PRIVATE, "/tmp/private", **ANN)
    finally:
        await sandbox.kill()
