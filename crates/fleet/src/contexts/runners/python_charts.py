# Second part of the Python runner: the figures of matplotlib, as pictures and as the data that they show.
# ruff: noqa: F821

FIGURES = 20
CHART_POINTS = 100_000  # of one figure
CHART_TICKS = 10_000  # of one axis


class TooManyPoints(Exception):
    pass


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
    except TooManyPoints:
        chart = TOO_LARGE
    except Exception:
        chart = None
    if chart:
        found[CHART] = chart
    return found


def chart_of(figure):
    all_axes = figure.get_axes()
    if not any(axes.has_data() for axes in all_axes):
        return None
    room = PointRoom()
    charts = [axes_chart(axes, room) for axes in all_axes]
    return charts[0] if _len(charts) == 1 else {"type": "superchart", "title": title_of(figure), "elements": charts}


class PointRoom:
    """How many points the figure may still have: a chart that shows some of them would say something else than its figure."""

    def __init__(self):
        self.left = CHART_POINTS

    def take(self, count):
        self.left -= count
        if self.left < 0:
            raise TooManyPoints


def title_of(figure):
    title = _getattr(figure, "_suptitle", None)
    return title.get_text() if title is not None else None


def axes_chart(axes, room):
    """The kind that says most about the axes, `drawn` what they have, and `lines` those over bars, points or slices, and the parts of boxes
    that are drawn with lines."""
    drawn = drawn_in(axes)
    lines, points = line_elements(axes, room), point_elements(axes, room)
    flat, boxes = box_elements(axes)
    bars_flat, bars = bar_elements(axes, room)
    if pies := pie_elements(axes):
        kind, elements = "pie", pies
    elif boxes:
        kind, elements = "box", boxes
    elif bars:
        kind, elements, flat = "bar", bars, bars_flat
    elif lines and drawn != "points":
        kind, elements, lines = "line", lines + points, []
    else:
        kind, elements = ("scatter" if points else "unknown"), points
    if drawn == "boxes":
        lines = []  # the whiskers, caps and medians
    chart = {
        "type": kind,
        "drawn": drawn,
        "title": axes.get_title() or None,
        "x_label": axes.get_xlabel() or None,
        "y_label": axes.get_ylabel() or None,
        **side_of("x", axes.xaxis, kind, drawn),
        **side_of("y", axes.yaxis, kind, drawn),
        "elements": elements,
    }
    if kind in ("bar", "box"):
        chart["orientation"] = "horizontal" if flat else "vertical"
    if lines:
        chart["lines"] = lines
    return chart


def drawn_in(axes):
    """The one kind of thing that the axes have, `several` where there are more. Lines of a grid or a threshold count where there is nothing
    else, a box has lines beside it, and texts never count."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Rectangle, Wedge
    from matplotlib.text import Text

    kinds = ("lines", "patches", "collections", "images", "tables", "artists")
    there = _getattr(axes, "_children", None)
    if there is None:  # before matplotlib 3.5
        there = [one for kind in kinds for one in _getattr(axes, kind)]
    there = [one for one in there if not _isinstance(one, Text)]

    def all_are(*classes):
        return all(_isinstance(one, classes) for one in there)

    if all_are(Line2D):
        return "lines"
    if all_are(PathPatch, Line2D):
        return "boxes"
    there = [one for one in there if not (_isinstance(one, Line2D) and is_grid_line(one))]
    for name, kind in (("points", PathCollection), ("slices", Wedge), ("bars", Rectangle)):
        if all_are(kind):
            return name
    return "several"


def is_grid_line(line):
    x, y = line.get_xdata(), line.get_ydata()
    return _len(x) == 2 and _len(y) == 2 and bool(x[0] == x[1] or y[0] == y[1])


# The parts of axes


def named(artist):
    """The label of an artist. The names that matplotlib gives to those without one begin with an underscore."""
    label = _str(artist.get_label())
    return {"label": "", "artist": label} if label.startswith("_") else {"label": label}


def line_elements(axes, room):
    elements = []
    for line in axes.get_lines():
        room.take(_len(line.get_xdata()))
        x, y = listed(line.get_xdata()), listed(line.get_ydata())
        elements.append({**named(line), "points": [list(point) for point in zip(x, y)]})
    return elements


def point_elements(axes, room):
    elements = []
    for collection in axes.collections:
        if _type(collection).__name__ == "PathCollection":
            offsets = collection.get_offsets()
            room.take(_len(offsets))
            elements.append({**named(collection), "points": [[plain(x), plain(y)] for x, y in offsets]})
    return elements


def pie_elements(axes):
    names = [text.get_text() for text in axes.texts]
    names = [name for name in names if not name.endswith("%")]
    elements = []
    for index, wedge in enumerate(patch for patch in axes.patches if _type(patch).__name__ == "Wedge"):
        label = named(wedge)
        if not label["label"]:
            label["label"] = names[index] if index < _len(names) else ""
        # matplotlib reckons with 24 bits, and 40 degrees become 40.00000059.
        angle = float("%.6g" % abs(wedge.theta2 - wedge.theta1))
        elements.append({**label, "angle": angle, "share": angle / 360.0, "radius": plain(wedge.r)})
    return elements


def bar_elements(axes, room):
    """Whether the bars lie, and the bars."""
    flat, elements = False, []
    for container in axes.containers:
        if _type(container).__name__ != "BarContainer":
            continue
        group = named(container)
        group = {"group": group["label"], **({"artist": group["artist"]} if "artist" in group else {})}
        flat = _getattr(container, "orientation", "vertical") == "horizontal"
        place = Places(axes.yaxis if flat else axes.xaxis)
        room.take(_len(container))
        for bar in container:
            start, size = (bar.get_y(), bar.get_height()) if flat else (bar.get_x(), bar.get_width())
            value = bar.get_width() if flat else bar.get_height()
            elements.append({"label": place.name(start + size / 2), **group, "value": plain(value)})
    return flat, elements


def box_elements(axes):
    """Whether the boxes lie, and the boxes. Each is a patch or a closed line, with two whiskers from its ends and a median across it; what
    has not all of them is no box."""
    lines = [numbers_of(line) for line in axes.get_lines()]
    lines = [line for line in lines if line]
    shapes = [(x, y) for x, y in lines if _len(x) > 4 and (x[0], y[0]) == (x[-1], y[-1])]
    for patch in axes.patches:
        if _type(patch).__name__ == "PathPatch":
            corners = patch.get_path().vertices
            shapes.append(([float(x) for x in corners[:, 0]], [float(y) for y in corners[:, 1]]))
    for flat in (False, True):
        side = axes.yaxis if flat else axes.xaxis
        turned = [(y, x) for x, y in lines] if flat else lines
        found = [box_of(y, x, turned) if flat else box_of(x, y, turned) for x, y in shapes]
        if found and all(found):
            place = Places(side)
            return flat, [{"label": place.name(box.pop("middle")), **box} for box in found]
    return False, []


def numbers_of(line):
    try:
        return [float(value) for value in line.get_xdata()], [float(value) for value in line.get_ydata()]
    except (TypeError, ValueError):
        return None


def box_of(x, y, lines):
    """A standing box from its outline and all lines of its axes, None if it lacks a part. A mean has a line of its own, dashed and as wide
    as the median, which comes before it."""
    left, right, low, high = min(x), max(x), min(y), max(y)
    least = most = median = None
    width, outliers = 0.0, []
    for across, up in lines:
        if not across or not all(left - NEAR <= one <= right + NEAR for one in across):
            continue
        if _len(across) == 2 and abs(across[0] - across[1]) < NEAR and abs(across[0] - (left + right) / 2) < NEAR:
            if abs(max(up) - low) < NEAR and least is None:
                least = min(up)
            elif abs(min(up) - high) < NEAR and most is None:
                most = max(up)
            else:
                outliers += up
        elif _len(across) == 2 and up[0] == up[1] and low - NEAR <= up[0] <= high + NEAR:
            # The cap of a whisker without length lies on the box too, and is narrower.
            if abs(across[1] - across[0]) > width + NEAR:
                median, width = up[0], abs(across[1] - across[0])
        elif _len(set(across)) == 1:
            outliers += up
    if least is None or most is None or median is None:
        return None
    return {
        "middle": (left + right) / 2,
        "min": plain(least),
        "first_quartile": plain(low),
        "median": plain(median),
        "third_quartile": plain(high),
        "max": plain(most),
        "outliers": listed(one for one in outliers if not least <= one <= most),
    }


NEAR = 1e-9


# Numbers, dates and names


def plain(value):
    """A number or text that JSON has."""
    if _type(value).__name__ == "datetime64":
        return _str(value.astype("datetime64[s]"))
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
    return [plain(value) for value in values]


class Places:
    """What stands at the places of one side: the text of a tick, a date, or the number itself."""

    def __init__(self, side):
        self.dates = has_dates(side)
        self.names = {}
        for place, label in zip(side.get_majorticklocs(), side.get_majorticklabels()):
            if label.get_text():
                self.names.setdefault(round(float(place), 6), label.get_text())

    def name(self, place):
        found = self.names.get(round(float(place), 6))
        if found is None and self.dates:
            return dates_of([place])[0]
        # 0.1 + 0.2 is 0.3 here.
        return plain(float("%.12g" % place)) if found is None else found


def has_dates(side):
    convert = _getattr(side, "get_converter", None)
    converter = convert() if convert else _getattr(side, "converter", None)
    return _type(converter).__module__ == "matplotlib.dates"


def dates_of(places):
    from matplotlib.dates import num2date

    return [num2date(place).isoformat() for place in places]


def side_of(name, side, kind, drawn):
    """The scale of an axis and, of a chart of points, its ticks: dates are told as such."""
    places = list(side.get_majorticklocs())[:CHART_TICKS]
    labels = [label.get_text() for label in side.get_majorticklabels()][:CHART_TICKS]
    found = {f"{name}_scale": scale_of(side, places, labels)}
    if kind in ("line", "scatter") or drawn in ("lines", "points"):
        found[f"{name}_ticks"] = dates_of(places) if has_dates(side) else listed(places)
        found[f"{name}_tick_labels"] = labels
    return found


def scale_of(side, places, labels):
    if has_dates(side):
        return "datetime"
    scale = side.get_scale()
    # Names stand at 0, 1, 2 and so on. numpy's integers are no `int`: those are ticks that somebody set.
    counted = [_isinstance(place, (int, float)) and place == at for at, place in enumerate(places)]
    if scale == "linear" and counted and all(counted):
        if all(_str(at) != label for at, label in enumerate(labels)):
            return "categorical"
    return scale
