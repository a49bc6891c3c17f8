#!/bin/sh
# What an agent does, without a model: code that a model wrote is run in a sandbox, and some of it means harm.
set -eu
paddock=${PADDOCK_BIN:?the Makefile sets it}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

say "1. An agent asks: what is the 30th Fibonacci number? The model writes Python; it runs in a fresh sandbox."
"$paddock" code -l python --timeout 30s --memory 256MiB '
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a

print("the 30th Fibonacci number is", fibonacci(30))
'

say "2. The model is led astray: its code looks for secrets, for the network, and for a way out."
AWS_SECRET_ACCESS_KEY=not-for-the-sandbox "$paddock" code -l python '
import os, socket, ctypes

def attempt(what, action):
    try:
        print(f"  {what:<46} {action()}")
    except OSError as error:
        print(f"  {what:<46} refused: {error.strerror}")

attempt("the caller'"'"'s AWS_SECRET_ACCESS_KEY", lambda: os.environ.get("AWS_SECRET_ACCESS_KEY", "not there"))
attempt("files of the caller'"'"'s home", lambda: os.listdir("/root"))
attempt("writing to /usr/bin", lambda: open("/usr/bin/evil", "w"))
attempt("connecting to the internet", lambda: socket.create_connection(("198.51.100.1", 443), 1))
own = lambda: len([name for name in os.listdir("/proc") if name.isdigit()])
attempt("processes of the host", lambda: f"sees {own()}, which is itself")
libc = ctypes.CDLL(None, use_errno=True)
def unshare():
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "a new user namespace"
attempt("making a namespace to hide in", unshare)
'

say "3. It tries to eat the machine: 1 GiB of memory with a limit of 128 MiB."
set +e
"$paddock" run --memory 128MiB -- python3 -c 'x = bytearray(1 << 30)'
echo "exit code $?"
set -e

say "4. What the sandbox guaranteed, and what it used:"
"$paddock" run --json -- python3 -c 'print(sum(range(101)))'

say "Nothing is left: no process, mount, cgroup or file. Try it yourself:  $paddock run -- bash"
