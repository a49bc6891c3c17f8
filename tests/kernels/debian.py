"""What comes from Debian's packages: downloaded once, unpacked, never installed."""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile


# Keys of all releases that are supported, and of sid.
KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CLOUD = "cloud-amd64"


class Skip(Exception):
    """The machine cannot do this test; the message says why."""


class Kernel:
    """A kernel and its modules, of unpacked packages."""

    def __init__(self, places):
        images = ["boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"]
        self.image = only((image for place in places for name in images for image in place.glob(name)), "kernel image")
        self.modules = only((found.parent for place in places for found in place.glob("**/lib/modules/*/kernel")), "kernel modules")
        self.version = self.modules.name


def release(cache):
    """The kernel of this host's release of Debian."""
    return kernel_of(real_kernel_package(f"linux-image-{CLOUD}"), cache)


def newest(cache):
    """The newest that the host's archive has."""
    return kernel_of(newest_kernel_package(CLOUD), cache)


def of_suite(suite):
    def kernel(cache):
        options = apt_of_suite(suite, cache)
        return kernel_of(real_kernel_package(f"linux-image-{CLOUD}", options), cache, options)

    return kernel


def kernel_of(package, cache, options=()):
    """From Debian 14 on the package holds nothing: image and modules are in packages that it depends on."""
    parts = re.findall(r"Depends: (linux-(?:binary|modules)-\S+)", output(["apt-cache", *options, "depends", "--important", package]))
    return Kernel([unpacked(part, cache, options) for part in (package, *parts)])


# By the names that the options `--kernel` take.
KERNELS = {"release": release, "newest": newest, "trixie": of_suite("trixie"), "sid": of_suite("sid")}


def default_cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "paddock", "kernels")


def check_machine():
    if os.uname().machine != "x86_64":
        raise Skip(f"the kernel is for x86_64, not {os.uname().machine}")
    for tool in ["apt-get", "apt-cache", "dpkg"]:
        if not shutil.which(tool):
            raise Skip(f"no {tool}: the kernel comes from a Debian package")


def busybox(cache):
    place = unpacked("busybox-static", cache)
    return only((p for p in [place / "usr/bin/busybox", place / "bin/busybox"] if p.exists()), "busybox")


def find_or_install(program, package):
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    if not shutil.which(program, path=path):
        if os.geteuid() != 0:
            raise Skip(f"no {program}, and only root can install {package}")
        install = ["apt-get", "install", "-y", "--no-install-recommends", package]
        if not succeeds(install) and not (succeeds(["apt-get", "update"]) and succeeds(install)):
            raise Skip(f"apt-get cannot install {package}")
    return shutil.which(program, path=path)


def real_kernel_package(name, options=()):
    """The package that the name without a version stands for."""
    for attempt in range(2):
        text = output(["apt-cache", *options, "depends", "--important", name])
        found = re.search(r"Depends: (linux-image-\d\S*)", text)
        if found:
            return found[1]
        if options:
            break
        if attempt == 0 and not (os.geteuid() == 0 and succeeds(["apt-get", "update"])):
            break
    raise Skip(f"apt knows no {name}")


def newest_kernel_package(flavour):
    """Of all releases that apt knows, one that this Debian does not boot by itself included."""
    found = re.findall(rf"^(linux-image-(\d+)\.(\d+)\.(\d+)\S*-{flavour}(?:-unsigned)?) ", output(["apt-cache", "search", "^linux-image-"]), re.M)
    if not found:
        raise Skip(f"apt knows no kernel of the flavour {flavour}")
    # The same release signed or not: either boots.
    return max(found, key=lambda one: (tuple(map(int, one[1:])), one[0]))[0]


def apt_of_suite(suite, cache):
    """Options by which apt knows the packages of another suite of Debian, from lists of its own: the host's are left alone."""
    if not KEYRING.exists():
        raise Skip(f"no {KEYRING}: nothing can tell the packages of {suite} from others")
    place = cache / f"apt-{suite}"
    for name in ["lists/partial", "cache/archives/partial"]:
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "status").touch()
    (place / "sources.list").write_text(f"deb [signed-by={KEYRING}] {archive_of_host()} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": place / "sources.list", "Dir::Etc::sourceparts": "-", "Dir::State::lists": place / "lists",
        "Dir::Cache": place / "cache", "Dir::State::status": place / "status", "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    # The earlier list is good enough where the archive does not answer.
    if not succeeds(["apt-get", *options, "update", "--error-on=any"]) and not output(["apt-cache", *options, "pkgnames", "linux-image"]):
        raise Skip(f"no archive gives the packages of {suite}")
    return options


def archive_of_host():
    """Where this host has its own Debian from; elsewhere the archive that everybody reaches."""
    targets = output(["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(RELEASE) $(REPO_URI)", "Created-By: Packages"])
    own = re.search(r"^Debian (\w+) \1 (\S+)$", targets, re.M)
    return own[2] if own else "http://deb.debian.org/debian"


def unpacked(package, cache, options=()):
    """The directory of a package's files, downloaded once; nothing is installed."""
    versions = re.search(r"^Version: (\S+)", output(["apt-cache", *options, "show", "--no-all-versions", package]), re.M)
    if not versions:
        raise Skip(f"apt knows no {package}")
    place = cache / f"{package}_{versions[1].replace(':', '%3a')}"
    if os.path.isdir(place):
        return place
    try:
        cache.mkdir(parents=True, exist_ok=True)
        working = tempfile.TemporaryDirectory(prefix=".download-", dir=cache)
    except OSError as error:
        raise Skip(f"the cache cannot be written: {error}") from error
    with working as directory:
        # The sandbox user of apt cannot write to a directory of root's.
        download = ["apt-get", *options, "-o", "APT::Sandbox::User=root", "download", package]
        if not succeeds(download, directory):
            updated = not options and os.geteuid() == 0 and succeeds(["apt-get", "update"])
            if not (updated and succeeds(download, directory)):
                raise Skip(f"apt-get cannot download {package}")
        archive = only(pathlib.Path(directory).glob("*.deb"), "a package")
        if not succeeds(["dpkg", "-x", str(archive), str(pathlib.Path(directory, "files"))]):
            raise Skip(f"dpkg cannot unpack {package}")
        # Whole or not at all; another run may have been faster.
        with contextlib.suppress(OSError):
            os.rename(pathlib.Path(directory, "files"), place)
    return place


def root_of(packages, cache):
    """One directory with the files of these packages and of all that they depend on."""
    wanted = ["--recurse", *(f"--no-{kind}" for kind in "recommends suggests conflicts breaks replaces enhances".split())]
    listed = output(["apt-cache", "depends", *wanted, *packages])
    names = sorted({line for line in listed.splitlines() if re.fullmatch(r"[a-z0-9][a-z0-9+.-]*", line)})
    if not names:
        raise Skip(f"apt knows none of {' '.join(packages)}")
    versions = "".join(sorted(output(["apt-cache", "show", "--no-all-versions", *names]).splitlines()))
    place = cache / f"root-{hashlib.sha256(versions.encode()).hexdigest()[:16]}"
    if place.is_dir():
        return place
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as directory:
        if not succeeds(["apt-get", "-o", "APT::Sandbox::User=root", "download", *names], directory):
            raise Skip("apt-get cannot download the packages of a root")
        root = pathlib.Path(directory, "root")
        for name in ["bin", "sbin", "lib", "lib64"]:
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        for archive in sorted(pathlib.Path(directory).glob("*.deb")):
            # Into directories that are links, and over nothing that another package has.
            unpack = f"dpkg --fsys-tarfile '{archive}' | tar -x -C '{root}' --keep-directory-symlink --skip-old-files"
            if not succeeds(["sh", "-c", unpack]):
                raise Skip(f"{archive.name} cannot be unpacked")
        with contextlib.suppress(OSError):
            os.rename(root, place)
    return place


def only(found, what):
    found = sorted(found)
    if not found:
        raise Skip(f"the packages hold no {what}")
    return found[0]


def succeeds(command, directory=None):
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    ended = subprocess.run(command, cwd=directory, env=environment, check=False, **quiet)
    if ended.returncode != 0:
        print("".join(f"  {line}\n" for line in ended.stderr.splitlines()[-5:]), end="")
    return ended.returncode == 0


def output(command):
    """What a command prints, nothing when it fails."""
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return ended.stdout if ended.returncode == 0 else ""
