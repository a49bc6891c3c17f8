"""The one thing of pytest that the cases use, without a package for it."""


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
