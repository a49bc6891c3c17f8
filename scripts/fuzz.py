"""Builds the fuzz targets with the pinned compiler and runs each for a while: libFuzzer, with the address sanitizer.

    python3 scripts/fuzz.py [--seconds 60] [TARGET...]

Exit code 0: nothing was found; 1: a target stopped at an input, which stays in fuzz/artifacts/. The corpus grows in
fuzz/corpus/, and is not committed.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUZZ = ROOT / "fuzz"
# The same flags as cargo-fuzz: every edge is counted, and every comparison is reported to the fuzzer.
FLAGS = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Zsanitizer=address",
    "-Cdebug-assertions",
    "--cfg=fuzzing",
]
NOBODY = 65534
# Targets for which the whole engine is built.
ENGINES = {"policy", "unpack", "git_settings", "e2b_envelopes", "e2b_form", "e2b_words", "e2b_bodies", "e2b_gzip"}
# The largest useful input of a target in bytes; longer ones only take longer.
LONGEST = {"policy": 4096, "unpack": 16384, "e2b_words": 4096, "e2b_bodies": 4096}


def targets():
    return re.findall(r'^name = "(\w+)"\npath', (FUZZ / "Cargo.toml").read_text(), re.MULTILINE)


def host():
    said = subprocess.run(["rustc", "-vV"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return re.search(r"^host: (.+)$", said, re.MULTILINE).group(1)


def build(triple, names):
    """With the flags for the target alone: what runs during the build needs none."""
    environment = os.environ | {"RUSTC_BOOTSTRAP": "1", "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(FLAGS)}
    command = ["cargo", "build", "--locked", "--release", "--target", triple, "--manifest-path", FUZZ / "Cargo.toml"]
    chosen = [word for name in names for word in ("--bin", name)]
    if not ENGINES.intersection(names):
        chosen.append("--no-default-features")
    subprocess.run([*command, *chosen], cwd=ROOT, env=environment, check=True)
    place = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", FUZZ / "target")).absolute()
    return place / triple / "release"


def run(executable, name, seconds):
    corpus, found = FUZZ / "corpus" / name, FUZZ / "artifacts" / name
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={found}/", "-timeout=10", "-print_final_stats=1"]
    if name in LONGEST:
        options.append(f"-max_len={LONGEST[name]}")
    print(f"fuzz: {name} for {seconds} s", flush=True)
    identity = {}
    if os.geteuid() == 0:
        # The code under test may be broken, and its input is made to break it: so it does not run as root.
        identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        for path in [corpus, found, *corpus.iterdir()]:
            os.chown(path, NOBODY, NOBODY)
    command = [executable, *options, corpus, FUZZ / "seeds" / name]
    try:
        ended = subprocess.run(command, text=True, errors="replace", stderr=subprocess.PIPE, cwd="/tmp", **identity)
    except PermissionError:
        sys.exit(f"fuzz: `nobody` cannot start {executable}; start this as an ordinary user")
    tried = re.search(r"number_of_executed_units: (\d+)", ended.stderr)
    if ended.returncode == 0:
        print(f"fuzz: {name}: nothing found in {tried.group(1) if tried else '?'} inputs", flush=True)
    else:
        print(ended.stderr[-4000:], file=sys.stderr)
        print(f"fuzz: {name}: stopped at an input, see {found}", flush=True)
    return ended.returncode == 0


def main():
    known = targets()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all when none is named: {', '.join(known)}")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.targets if name not in known]:
        parser.error(f"there is no target `{unknown[0]}`; there are {', '.join(known)}")
    names = arguments.targets or known
    place = build(host(), names)
    held = [run(place / name, name, arguments.seconds) for name in names]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
