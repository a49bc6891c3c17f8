# First part of the Python runner: values, in all their representations, and the frames that carry them.

import io
import json
import sys

TEXT_LIMIT = 1 << 20  # characters of one textual representation
BINARY_LIMIT = 8 << 20  # bytes of one image or document
FRAME_LIMIT = 12 << 20
DATA_ROWS = 1000

METHODS = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)  # fmt: skip
DATA = "application/vnd.paddock.data+json"
CHART = "application/vnd.paddock.chart+json"
TOO_LARGE = object()  # in place of a representation that was not even made

# Kept here, so that code which replaces them in their modules does not break the next call.
_len, _repr, _str, _bytes, _isinstance, _getattr, _type = len, repr, str, bytes, isinstance, getattr, type


def encode(kind, fields):
    """A frame, as docs/reference/runner.md has it."""
    out = [b"%s %d\n" % (kind.encode(), _len(fields))]
    for name, value in fields:
        if _isinstance(value, _str):
            value = value.encode("utf-8", "replace")
        out.append(b"%s %d\n" % (name.encode(), _len(value)))
        out.append(value)
        out.append(b"\n")
    return b"".join(out)


# Representations


def cut_text(text, cut, name):
    if _len(text) > TEXT_LIMIT:
        cut.append(name)
        return "%s\n... %d characters were cut" % (text[:TEXT_LIMIT], _len(text) - TEXT_LIMIT)
    return text


def bundle(value, use_repr=True):
    """Every representation that the value has, by media type. What a method raises costs its representation only,
    but for the plain text, which is the code's own failure."""
    found = {}
    kind = _type(value)
    if hasattr(kind, "_repr_mimebundle_"):
        try:
            made = value._repr_mimebundle_()
            found.update(made[0] if _isinstance(made, tuple) else made or {})
        except Exception:
            pass
    for method, name in METHODS:
        if name not in found and hasattr(kind, method):
            try:
                made = _getattr(value, method)()
            except Exception:
                continue
            if _isinstance(made, tuple):
                made = made[0]
            if made is not None:
                found[name] = made
    if "text/plain" not in found and use_repr:
        found["text/plain"] = _repr(value)
    if "application/json" not in found and _isinstance(value, (dict, list)):
        found["application/json"] = value
    table = data_of(value)
    if table is not None:
        found[DATA] = table
    return found


def data_of(value):
    """A data frame or series as columns and rows, the first of them."""
    kind = _type(value)
    module = _getattr(kind, "__module__", "") or ""
    if module.partition(".")[0] != "pandas" or kind.__name__ not in ("DataFrame", "Series"):
        return None
    try:
        frame = value.to_frame() if kind.__name__ == "Series" else value
        head = frame.head(DATA_ROWS)
        made = json.loads(head.to_json(orient="split", date_format="iso", default_handler=_str))
        return {
            "columns": [_str(name) for name in made["columns"]],
            "types": [_str(kind) for kind in frame.dtypes],
            "index": made["index"],
            "rows": made["data"],
            "total_rows": int(_len(frame)),
        }
    except Exception:
        return None


def is_name(name):
    """What can stand before a length in a frame."""
    return _isinstance(name, _str) and name.isascii() and name.isprintable() and " " not in name and _len(name) <= 100


def encode_result(representations, main):
    fields, cut, size = [], [], 0
    if main:
        fields.append(("main", b"1"))
    for name, value in representations.items():
        if not is_name(name):
            continue
        if value is TOO_LARGE:
            cut.append(name)
            continue
        if name in ("application/json", DATA, CHART) or name.endswith("+json"):
            if not _isinstance(value, (_str, _bytes)):
                try:
                    value = json.dumps(value, default=_str)
                except Exception:
                    continue
            if _len(value) > (BINARY_LIMIT if name == CHART else TEXT_LIMIT):
                cut.append(name)
                continue
        elif _isinstance(value, (bytearray, memoryview)):
            value = _bytes(value)
        elif not _isinstance(value, (_str, _bytes)):
            value = _str(value)
        if _isinstance(value, _str) and name in ("image/png", "image/jpeg", "application/pdf"):
            # As Jupyter's protocol has them.
            import base64

            try:
                value = base64.b64decode(value)
            except Exception:
                continue
        if _isinstance(value, _str):
            if name == "text/plain":
                value = cut_text(value, cut, name)
            elif _len(value) > BINARY_LIMIT:
                cut.append(name)
                continue
            value = value.encode("utf-8", "replace")
        if _len(value) > BINARY_LIMIT or size + _len(value) > FRAME_LIMIT or _len(fields) > 50:
            cut.append(name)
            continue
        size += _len(value)
        fields.append((name, value))
    if cut:
        fields.append(("cut", ",".join(cut)))
    return encode("result", fields)
