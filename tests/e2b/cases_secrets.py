"""Secrets with both flavours of the Python SDK; and the warning for an SDK that is not tested, and MCP."""
import contextlib
import json
import urllib.error
import urllib.request
import uuid

import pytest_like as expect
from e2b import AsyncSecret, AuthenticationException, Sandbox, SandboxException, Secret
from e2b.exceptions import NotFoundException, SecretException, SecretNotFoundException

VALUE = "a-value-that-is-shown-nowhere"


def name():
    return f"s-{uuid.uuid4().hex[:12]}"


@contextlib.contextmanager
def secret(**options):
    made = Secret.create(name(), VALUE, **options)
    try:
        yield made
    finally:
        Secret.destroy(made.secret_id)


def drained(paginator):
    found = []
    while paginator.has_next:
        found.extend(paginator.next_items())
    return found


def case_a_secret_is_made_found_changed_and_removed(world):
    wanted = name()
    made = Secret.create(wanted, VALUE, metadata={"team": "a b"})
    assert (made.name, made.version, made.metadata) == (wanted, 1, {"team": "a b"})
    assert Secret.get_info(wanted) == Secret.get_info(made.secret_id) == made
    now = Secret.update(wanted, VALUE + "-2")
    assert (now.version, now.metadata, now.secret_id) == (2, {"team": "a b"}, made.secret_id)
    assert now.updated_at >= made.updated_at and now.created_at == made.created_at
    assert Secret.update(made.secret_id, VALUE, metadata={}).metadata == {}
    assert Secret.get_info(wanted).version == 3
    assert Secret.exists(wanted) and Secret.destroy(wanted) is True
    assert Secret.destroy(wanted) is False and not Secret.exists(wanted)


def case_pages_of_secrets(world):
    made = [Secret.create(name(), VALUE) for _ in range(5)]
    try:
        pages = Secret.list(limit=2)
        first = pages.next_items()
        assert len(first) == 2 and pages.has_next
        names = [one.name for one in first + drained(pages)]
        assert {one.name for one in made} <= set(names) and len(names) == len(set(names))
        expect.raises(SecretException, Secret.list(limit=5000).next_items)
        expect.raises(SecretException, Secret.list(next_token="nonsense").next_items)
    finally:
        for one in made:
            Secret.destroy(one.secret_id)


def case_a_name_may_have_slashes_and_spaces(world):
    for wanted in (f"{name()}/key", f"{name()} grün %2F?#"):
        made = Secret.create(wanted, VALUE)
        assert Secret.get_info(made.secret_id).name == wanted
        assert Secret.destroy(made.secret_id) is True
    with_slash = Secret.create(f"{name()}/key", VALUE)
    assert Secret.get_info(with_slash.name).secret_id == with_slash.secret_id
    assert Secret.destroy(with_slash.name) is True


def case_an_unknown_secret_is_not_found(world):
    for missing in ("no-such-secret", "sec-0000000000000000", "a/b"):
        expect.raises(SecretNotFoundException, Secret.get_info, missing)
        expect.raises(SecretNotFoundException, Secret.update, missing, VALUE)
        assert Secret.destroy(missing) is False and not Secret.exists(missing)


def case_the_value_is_visible_nowhere(world):
    with secret(metadata={"about": "shown"}) as made:
        key = {"X-API-KEY": world.key}
        for target in ("/secrets", f"/secrets/{made.secret_id}", f"/secrets/{made.name}"):
            with urllib.request.urlopen(urllib.request.Request(world.url + target, headers=key)) as answer:
                assert VALUE not in answer.read().decode()
        with open(world.server.log, errors="replace") as log:
            assert VALUE not in log.read()
        database = f"{world.server.directory}/state/paddock.db"
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError), open(database + suffix, "rb") as file:
                assert VALUE.encode() not in file.read()


def case_another_tenants_secret_is_not_there(world):
    with secret() as made:
        for key in (made.name, made.secret_id):
            expect.raises(SecretNotFoundException, Secret.get_info, key, api_key=world.other_key)
            expect.raises(SecretNotFoundException, Secret.update, key, VALUE, api_key=world.other_key)
            assert Secret.destroy(key, api_key=world.other_key) is False
        assert made.name not in [one.name for one in drained(Secret.list(api_key=world.other_key))]
        same = Secret.create(made.name, VALUE, api_key=world.other_key)
        assert same.secret_id != made.secret_id
        assert Secret.destroy(same.name, api_key=world.other_key) is True
        assert Secret.get_info(made.name).secret_id == made.secret_id


def case_bad_secrets_are_refused(world):
    with secret() as made:
        assert "already" in str(expect.raises(SecretException, Secret.create, made.name, VALUE))
        for bad in ("short", "with\nline", "x" * 20000, ""):
            expect.raises(SecretException, Secret.create, name(), bad)
            expect.raises(SecretException, Secret.update, made.name, bad)
        for bad in ("", "a{b}", "a\x00b", "n" * 300):
            expect.raises(SecretException, Secret.create, bad, VALUE)
        error = expect.raises(SecretException, Secret.create, name(), VALUE, metadata={"copy": VALUE})
        assert VALUE not in str(error)
        expect.raises(SecretException, Secret.create, name(), VALUE, metadata={str(n): "x" for n in range(100)})
        assert Secret.get_info(made.name).version == 1


def case_keys_and_roles_of_secrets(world):
    expect.raises(AuthenticationException, Secret.create, name(), VALUE, api_key="e2b_" + "0" * 64)
    with secret() as made:
        assert Secret.get_info(made.name, api_key=world.reading_key).version == 1
        expect.raises(SecretException, Secret.update, made.name, VALUE, api_key=world.reading_key)
        expect.raises(SecretException, Secret.destroy, made.name, api_key=world.reading_key)


def case_iam_is_refused_with_the_way_to_go(world):
    token = Secret.iam_token(audience="sts.example.com", token_type="JWT-SVID")
    error = expect.raises(SandboxException, Sandbox.create, iam={"tokens": {"aws": token}})
    assert "iam" in str(error), error
    network = {"rules": {"api.example.com": [{"transform": lambda context: {"headers": {"X-Token": context.iam.tokens["aws"]}}}]}}
    error = expect.raises(SandboxException, Sandbox.create, network=network, iam={"tokens": {"aws": token}})
    assert "iam" in str(error), error


def case_mcp_is_refused_with_the_way_to_go(world):
    error = expect.raises(SandboxException, Sandbox.create, mcp={"duckduckgo": {}})
    assert "mcp" in str(error) and "docs/guides/mcp.md" in str(error), error
    assert world.sandbox.get_mcp_url().endswith("/mcp")
    expect.raises(NotFoundException, world.sandbox.get_mcp_token)


def case_an_sdk_that_is_not_tested_is_warned(world):
    def answer(**headers):
        request = urllib.request.Request(world.url + "/v2/sandboxes", headers={"X-API-KEY": world.key, **headers})
        with urllib.request.urlopen(request) as found:
            json.load(found)
            return found.headers.get("Warning")

    import e2b.api.metadata
    assert answer(lang="python", package_version=e2b.api.metadata.package_version) is None
    for _ in range(3):
        said = answer(lang="python", package_version="1.2.3")
        assert said.startswith('299 paddock "') and "1.2.3" in said, said
    assert "9.9.9" in answer(**{"User-Agent": "e2b-js-sdk/9.9.9"})
    assert answer(**{"User-Agent": "curl/8"}) is None
    assert "7.7.7" in sandbox_answer(world, "7.7.7")
    with open(world.server.log, errors="replace") as log:
        assert sum("1.2.3" in line for line in log) == 1


def sandbox_answer(world, version):
    headers = {"E2b-Sandbox-Id": world.sandbox.sandbox_id, "X-Access-Token": "wrong", "lang": "js", "package_version": version}
    try:
        urllib.request.urlopen(urllib.request.Request(world.url + "/health", headers=headers))
    except urllib.error.HTTPError as error:
        return error.headers.get("Warning")
    raise AssertionError("a wrong token was taken")


async def case_async_secrets(world):
    wanted = name()
    made = await AsyncSecret.create(wanted, VALUE, metadata={"a": "b"})
    assert (made.version, made.metadata) == (1, {"a": "b"})
    assert (await AsyncSecret.update(wanted, VALUE + "-2")).version == 2
    assert (await AsyncSecret.get_info(made.secret_id)).version == 2
    pages, names = AsyncSecret.list(limit=1), []
    while pages.has_next:
        names += [one.name for one in await pages.next_items()]
    assert wanted in names
    assert await AsyncSecret.exists(wanted)
    assert await AsyncSecret.destroy(wanted) is True
    assert await AsyncSecret.destroy(wanted) is False
    await expect.raises_later(SecretNotFoundException, AsyncSecret.get_info(wanted))


async def case_async_bad_secrets(world):
    await expect.raises_later(SecretException, AsyncSecret.create(name(), "short"))
    made = await AsyncSecret.create(name(), VALUE)
    try:
        await expect.raises_later(SecretNotFoundException, AsyncSecret.get_info(made.name, api_key=world.other_key))
        await expect.raises_later(SecretException, AsyncSecret.create(made.name, VALUE))
    finally:
        await AsyncSecret.destroy(made.secret_id)
