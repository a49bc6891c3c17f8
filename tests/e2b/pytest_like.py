"""The few things of pytest that the cases use, without a package for it."""
import time


class Skip(Exception):
    """The host lacks what a case is about. The message begins with the component of scripts/test.py that is then not tested."""


def raises(kind, function, *arguments, **options):
    """The exception of that kind that the call raises."""
    try:
        result = function(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"{getattr(function, '__name__', function)} gave {result!r} instead of {kind.__name__}")


async def raises_later(kind, waiting):
    try:
        result = await waiting
    except kind as error:
        return error
    raise AssertionError(f"it gave {result!r} instead of {kind.__name__}")


def until(ask, is_enough, patience=10.0):
    """The first answer that is enough, or the last one before patience ends: a case then fails by what it got."""
    end = time.monotonic() + patience
    while True:
        answer = ask()
        if is_enough(answer) or time.monotonic() > end:
            return answer
        time.sleep(0.025)


def read_until(handle, word):
    """The output of a terminal, up to a word."""
    seen = b""
    for _, _, piece in handle:
        seen += piece or b""
        if word in seen:
            return seen
    raise AssertionError(f"{word!r} is not in {seen!r}")
