# First part of the Python runner: values, in all their representations, and the frames that carry them.

import io
import json
import sys

TEXT_LIMIT = 1 << 20  # characters of one textual representation
BINARY_LIMIT = 8 << 20  # bytes of one image or document
FRAME_LIMIT = 12 << 20
DATA_ROWS = 1000
CHART_POINTS = 10000
FIGURES = 20

METHODS = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)  # fmt: skip
DATA = "application/vnd.paddock.data+json"
CHART = "application/vnd.paddock.chart+json"

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
        if name in ("application/json", DATA, CHART) or name.endswith("+json"):
            if not _isinstance(value, (_str, _bytes)):
                try:
                    value = json.dumps(value, default=_str)
                except Exception:
                    continue
            if _len(value) > TEXT_LIMIT:
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


# Figures


def figures():
    """Open matplotlib figures, drawn, and closed: the next call begins with none."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    drawn = []
    for number in pyplot.get_fignums()[:FIGURES]:
        figure = pyplot.figure(number)
        if not figure.get_axes():
            continue
        drawn.append(figure_bundle(figure))
    pyplot.close("all")
    return drawn


def figure_bundle(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    found = {"image/png": out.getvalue(), "text/plain": _repr(figure)}
    try:
        chart = chart_of(figure)
    except Exception:
        chart = None
    if chart:
        found[CHART] = chart
    return found


def plain(value):
    """A number or text that JSON has."""
    if hasattr(value, "item"):
        value = value.item()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if _isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if _isinstance(value, (int, bool)) or value is None:
        return value
    return _str(value)


def listed(values):
    return [plain(value) for value in list(values)[:CHART_POINTS]]


def chart_of(figure):
    axes = [axis_chart(axis) for axis in figure.get_axes()]
    axes = [chart for chart in axes if chart["elements"]]
    if not axes:
        return None
    return axes[0] if _len(axes) == 1 else {"type": "superchart", "title": title_of(figure), "elements": axes}


def title_of(figure):
    title = _getattr(figure, "_suptitle", None)
    return title.get_text() if title is not None else None


def axis_chart(axis):
    kind, elements = None, []
    pies = [patch for patch in axis.patches if _type(patch).__name__ == "Wedge"]
    bars = [box for box in axis.containers if _type(box).__name__ == "BarContainer"]
    boxes = box_elements(axis)
    if pies:
        kind = "pie"
        labels = [text.get_text() for text in axis.texts]
        names = [label for label in labels if not label.endswith("%")]
        for index, wedge in enumerate(pies):
            label = wedge.get_label() if not wedge.get_label().startswith("_") else ""
            label = label or (names[index] if index < _len(names) else "")
            angle = wedge.theta2 - wedge.theta1
            elements.append({"label": label, "angle": plain(angle), "share": plain(angle / 360.0)})
    elif boxes:
        kind, elements = "box", boxes
    elif bars:
        kind = "bar"
        for container in bars:
            group = container.get_label()
            group = "" if _str(group).startswith("_") else group
            ticks = tick_labels(axis)
            for bar in list(container)[:CHART_POINTS]:
                flat = _getattr(container, "orientation", "vertical") == "horizontal"
                middle = bar.get_y() + bar.get_height() / 2 if flat else bar.get_x() + bar.get_width() / 2
                label = ticks.get(round(float(middle), 6), plain(middle))
                value = bar.get_width() if flat else bar.get_height()
                elements.append({"label": label, "group": group, "value": plain(value)})
    else:
        for line in axis.get_lines():
            x, y = listed(line.get_xdata()), listed(line.get_ydata())
            elements.append({"label": name_of(line), "points": [list(point) for point in zip(x, y)]})
            kind = "line"
        for collection in axis.collections:
            if _type(collection).__name__ != "PathCollection":
                continue
            points = [[plain(x), plain(y)] for x, y in list(collection.get_offsets())[:CHART_POINTS]]
            elements.append({"label": name_of(collection), "points": points})
            kind = "scatter" if kind in (None, "scatter") else kind
    return {
        "type": kind or "unknown",
        "title": axis.get_title() or None,
        "x_label": axis.get_xlabel() or None,
        "y_label": axis.get_ylabel() or None,
        **side_of("x", axis.xaxis, kind),
        **side_of("y", axis.yaxis, kind),
        "elements": elements,
    }


def side_of(name, side, kind):
    """The scale of an axis and, of a chart of points, its ticks: dates are told as such."""
    scale = side.get_scale()
    if kind not in ("line", "scatter"):
        return {f"{name}_scale": scale}
    places = list(side.get_majorticklocs())[:CHART_POINTS]
    labels = [label.get_text() for label in side.get_majorticklabels()][:CHART_POINTS]
    convert = _getattr(side, "get_converter", None)
    converter = _type(convert() if convert else _getattr(side, "converter", None))
    if converter.__module__ == "matplotlib.dates":
        from matplotlib.dates import num2date

        scale, ticks = "datetime", [num2date(place).isoformat() for place in places]
    else:
        scale = "categorical" if converter.__module__ == "matplotlib.category" else scale
        ticks = listed(places)
    return {f"{name}_scale": scale, f"{name}_ticks": ticks, f"{name}_tick_labels": labels}


def name_of(artist):
    label = _str(artist.get_label())
    return "" if label.startswith("_") else label


def width(line):
    return float(max(line.get_xdata())) - float(min(line.get_xdata()))


def tick_labels(axis):
    found = {}
    for side in (axis.xaxis, axis.yaxis):
        for place, label in zip(side.get_majorticklocs(), side.get_majorticklabels()):
            text = label.get_text()
            if text:
                found.setdefault(round(float(place), 6), text)
    return found


def box_elements(axis):
    """A box plot is six lines a box: the box, two whiskers, two caps, the median."""
    lines = [line for line in axis.get_lines() if _len(line.get_ydata()) in (2, 5)]
    boxes = [line for line in lines if _len(line.get_ydata()) == 5]
    elements = []
    ticks = tick_labels(axis)
    for box in boxes:
        x, y = [float(value) for value in box.get_xdata()], [float(value) for value in box.get_ydata()]
        middle, low, high = (min(x) + max(x)) / 2, min(y), max(y)
        inside = [line for line in lines if line is not box and min(x) <= float(min(line.get_xdata())) <= max(x)]
        flat = [line for line in inside if float(line.get_ydata()[0]) == float(line.get_ydata()[1])]
        levels = sorted(float(line.get_ydata()[0]) for line in flat)
        # As wide as the box; the caps of the whiskers are narrower.
        wide = [line for line in flat if abs(width(line) - (max(x) - min(x))) < 1e-9]
        medians = [float(line.get_ydata()[0]) for line in wide]
        elements.append({
            "label": ticks.get(round(middle, 6), plain(middle)),
            "min": plain(levels[0]) if levels else None,
            "first_quartile": plain(low),
            "median": plain(medians[0]) if medians else None,
            "third_quartile": plain(high),
            "max": plain(levels[-1]) if levels else None,
        })  # fmt: skip
    return elements
