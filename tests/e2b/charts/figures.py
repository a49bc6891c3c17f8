"""Figures that the package e2b_charts and Paddock's contexts are both asked about: the name of each, and the code that draws it. Each works
with the matplotlib of Debian 12 (3.6) and with newer ones, and is drawn alike by both."""

FIGURES = {
    "lines": "plt.plot([1, 2, 3], [4.5, 5, 6], label='up'); plt.plot([1, 2, 3], [1, 0, 1]); plt.title('T'); plt.xlabel('Time (s)'); plt.ylabel('Speed [m/s]'); plt.legend()",
    "a line of five points": "plt.plot([1, 2, 3, 4, 5], [2, 3, 5, 7, 11], label='primes')",
    "lines of a grid": "plt.axhline(2); plt.plot([1, 2, 3], [4, 5, 6]); plt.axvline(1.5); plt.plot([1, 3], [4, 4]); plt.plot([1, 2], [4, 6])",
    "a scale": "plt.plot([1, 10, 100], [0, 5, 10]); plt.xscale('log'); plt.xticks([1.0, 10.0, 100.0]); plt.yticks([0, 5], ['low', 'high'])",
    "named ticks": "plt.plot([0.0, 1.0, 2.0], [3, 4, 5]); plt.xticks([0.0, 1.0, 2.0], ['a', 'b', 'c']); plt.yticks([3, 4, 5])",
    "dates": "import datetime; plt.plot([datetime.date(2026, 1, 1), datetime.date(2026, 1, 3)], [1, 2])",
    "times of numpy": "import numpy; plt.plot(numpy.array(['2026-01-01', '2026-01-03'], dtype='datetime64[ns]'), [1, 2])",
    "days of numpy": "import numpy; plt.plot(numpy.array(['2026-01-01', '2026-01-03'], dtype='datetime64[D]'), [1, 2])",
    "names": "plt.plot(['one', 'two', 'three'], [1, 2, 3])",
    "points": "plt.scatter([1, 2], [3, 4], label='dots'); plt.scatter([5, 6], [7, 8])",
    "points without a name": "plt.scatter([1, 2], [3, 4]); plt.axhline(3.5); plt.scatter([5, 6], [7, 8])",
    "points over names": "plt.scatter(['a', 'b'], [1, 2])",
    "bars": "plt.bar(['a', 'b'], [3, 7]); plt.xlabel('x (cm)'); plt.ylabel('y [kg]')",
    "bars in groups": "plt.bar([0, 1], [3, 7], width=0.4, label='first'); plt.bar([0, 1], [2, 5], width=0.4); plt.bar([0, 1], [1, 4], width=0.4); plt.xticks([0, 1], ['a', 'b'])",
    "bars at numbers": "plt.bar([2000, 2001], [3, 7]); plt.xticks([2000, 2001])",
    "bars with a threshold": "plt.bar(['a', 'b'], [3, 7]); plt.axhline(5)",
    "flat bars": "plt.barh(['a', 'b'], [3, 7]); plt.xlabel('count (1)'); plt.ylabel('name')",
    "lines over bars": "plt.bar(['a', 'b', 'c'], [3, 7, 5]); plt.plot(['a', 'b', 'c'], [4, 6, 5]); plt.title('both')",
    "lines over points": "plt.scatter([1, 2, 3], [3, 4, 4.5]); plt.plot([1, 2, 3], [3, 4, 5])",
    "an area under a line": "plt.plot([1, 2, 3], [3, 4, 5]); plt.fill_between([1, 2, 3], [3, 4, 5])",
    "a picture": "plt.imshow([[1, 2], [3, 4]]); plt.title('P')",
    "slices": "plt.pie([1, 3], labels=['a', 'b'], autopct='%1.1f%%'); plt.title('P')",
    "slices without names": "plt.pie([1, 2, 6], radius=1.25, counterclock=False)",
    "boxes as patches": "plt.boxplot([[1, 2, 3, 4, 5], [2, 4, 5, 8, 10, 30]], patch_artist=True); plt.xlabel('group'); plt.ylabel('value (mm)')",
    "named boxes": "plt.boxplot([[1, 2, 3, 4, 5], [2, 4, 5, 8, 10]], patch_artist=True); plt.xticks([1, 2], ['p', 'q'])",
    "boxes as lines": "plt.boxplot([[1, 2, 3, 4, 5], [2, 4, 5, 8, 10]], showfliers=False)",
    "several axes": "_, axes = plt.subplots(2, 2); axes[0][0].plot([1, 2, 4]); axes[0][1].bar(['x', 'y'], [1, 2]); axes[1][0].set_title('empty'); axes[1][1].scatter([1], [2])",
    "several axes with a title": "figure, (a, b) = plt.subplots(1, 2); a.plot([1, 2, 4]); b.pie([1, 1], labels=['p', 'q']); figure.suptitle('All')",
    "empty axes": "plt.subplots()",
}

# The package tells these wrong, or fails: it takes the labels of bars and boxes from the first ticks of an axis, not from those at their
# places; bars of one height for bars that lie; a single box for one that lies; and outliers for one only where a box has no other.
# Paddock tells what the figure shows: these elements.
CORRECTED = {
    "bars between ticks": (
        "plt.bar([0.1, 0.3], [3, 7], width=0.1); plt.xticks([5, 6])",
        [{"label": "0.1", "group": "Group 0", "value": 3}, {"label": "0.3", "group": "Group 0", "value": 7}],
    ),
    "a single bar": ("plt.bar(['a'], [5])", [{"label": "a", "group": "Group 0", "value": 5}]),
    "bars of one height": (
        "plt.bar(['a', 'b'], [5, 5])",
        [{"label": "a", "group": "Group 0", "value": 5}, {"label": "b", "group": "Group 0", "value": 5}],
    ),
    "a single box": (
        "plt.boxplot([[1, 2, 3, 4, 5]], patch_artist=True)",
        [{"label": "1", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 5, "outliers": []}],
    ),
    "boxes that lie": (
        "plt.boxplot([[1, 2, 3, 4, 5], [2, 4, 5, 6, 7]], patch_artist=True, vert=False)",
        [
            {"label": "1", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 5, "outliers": []},
            {"label": "2", "min": 2, "first_quartile": 4, "median": 5, "third_quartile": 6, "max": 7, "outliers": []},
        ],
    ),
    "several outliers": (
        "plt.boxplot([[1, 2, 2, 3, 3, 3, 4, 4, 5, 20, 30], [2, 4, 5, 8, 10]], patch_artist=True)",
        [
            {"label": "1", "min": 1, "first_quartile": 2.5, "median": 3, "third_quartile": 4.5, "max": 5, "outliers": [20, 30]},
            {"label": "2", "min": 2, "first_quartile": 4, "median": 5, "third_quartile": 8, "max": 10, "outliers": []},
        ],
    ),
}
