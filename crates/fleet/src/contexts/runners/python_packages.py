# Fourth part of the Python runner: packages that are installed while the interpreter runs, by `!pip`, by a subprocess or by a
# command beside it. Python looks for its package directories when it starts, and lists each of them once.
# ruff: noqa: F821

import importlib.machinery
import os
import site
import sys
import time

# More than any file system's unit of time.
SAME_TIME_SECONDS = 2.5
_PathFinder = importlib.machinery.PathFinder
_stat, _now = os.stat, time.time


def user_place():
    """Where `pip install --user` puts packages. An interpreter that was forked into its sandbox began with another home."""
    if not site.ENABLE_USER_SITE:
        return None
    home = (os.environ.get("HOME"), os.environ.get("PYTHONUSERBASE"))
    if home != Packages.home:
        Packages.home, site.USER_BASE, site.USER_SITE = home, None, None
        Packages.user = site.getusersitepackages()
    return Packages.user


def add_package_places():
    """Directories of packages that were not there before join the path, in the order that a new interpreter has."""
    places = [place for place in (user_place(), *site.getsitepackages()) if place]
    for number, place in enumerate(places):
        if place in sys.path or not os.path.isdir(place):
            continue
        before = list(sys.path)
        site.addsitedir(place)
        added = [entry for entry in sys.path if entry not in before]
        later = [before.index(entry) for entry in places[number + 1 :] if entry in before]
        at = min(later, default=_len(before))
        sys.path[:] = before[:at] + added + before[at:]


class Packages:
    """The last that is asked for a module: looks once more, in directories that are new and as they are now."""

    home = None
    user = None
    looking = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        # Files that extend the path may import modules themselves.
        if cls.looking:
            return None
        cls.looking = True
        try:
            if path is None:
                add_package_places()
            forget_listings(sys.path if path is None else path)
            return _PathFinder.find_spec(name, path, target)
        finally:
            cls.looking = False

    @classmethod
    def install(cls):
        if not any(finder is cls for finder in sys.meta_path):
            sys.meta_path.append(cls)


def forget_listings(path):
    """Python lists a directory anew when its time has changed. That it was not there is remembered, and a change may have the
    same time as the listing."""
    for entry in path:
        entry = entry or working_directory()
        finder = sys.path_importer_cache.get(entry, path)
        if finder is None:
            del sys.path_importer_cache[entry]
        elif hasattr(finder, "invalidate_caches") and has_changed_lately(entry):
            finder.invalidate_caches()


def working_directory():
    try:
        return os.getcwd()
    except OSError:
        return ""


def has_changed_lately(directory):
    try:
        return _stat(directory).st_mtime > _now() - SAME_TIME_SECONDS
    except OSError:
        return False


Packages.install()
