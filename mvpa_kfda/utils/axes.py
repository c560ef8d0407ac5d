"""Axes of maps: what each is called, in tables, figures, texts and files.

A new axis is one row of `_ROWS`; results name theirs by `axes_of`, and everything that
shows a result asks the entry. Positions of a brain are worded by their space.
"""

from dataclasses import dataclass

from .checks import capital, counted, enumerated, plural


@dataclass(frozen=True)
class Axis:
    """What is said of an axis of a map, by the field of its coordinates."""

    #: Field of the coordinates in results, and their column of a table.
    field: str
    column: str
    #: What a coordinate is called, and what it is measured in; no unit for names.
    noun: str
    unit: str
    #: Where a position is, in a sentence, of the worded coordinate.
    place: str
    #: What a column of coordinates says, for files that describe tables.
    about: str
    #: What a coordinate is called in a paper, where that is another word.
    point: str = ""

    @property
    def end(self):
        """What stands behind a number: its unit."""
        return f" {self.unit}" if self.unit else ""

    @property
    def label(self):
        """What figures and tables write at the axis, "Time (s)"."""
        noun = capital(self.noun)
        return f"{noun} ({self.unit})" if self.unit else noun

    def count(self, number):
        """Word so many coordinates, "101 time points"."""
        return counted(number, self.point or self.noun)

    @property
    def is_time(self):
        """Whether coordinates are times."""
        return self.unit == "s"

    @property
    def asked(self):
        """What stands for a coordinate in a message, "a time", "a sensor by name"."""
        return f"a {self.noun}" if self.unit else f"a {self.noun} by name"


_TIMES = "Time of the sample, or the middle of the window"
_TRAIN, _TEST = (f"Time at which the classifier was {x}" for x in ("trained", "tested"))
_SENSOR = "Name of the sensor in the middle of its neighbours"
_VERTEX = "Number of the vertex in the middle, with its structure"
_ROWS = (
    ("times", "time", "time", "s", "{} s", _TIMES, "time point"),
    ("train_times", "train_time", "training time", "s", "training time {} s", _TRAIN),
    ("test_times", "test_time", "test time", "s", "test time {} s", _TEST),
    ("freqs", "freq", "frequency", "Hz", "{} Hz", "Frequency of the power"),
    ("ch_names", "sensor", "sensor", "", "sensor {}", _SENSOR),
    ("vertices", "vertex", "vertex", "", "vertex {}", _VERTEX),
)
#: Field of the coordinates -> the axis.
AXES = {row[0]: Axis(*row) for row in _ROWS}

#: Column of a table -> the axis.
BY_COLUMN = {axis.column: axis for axis in AXES.values()}

#: Axes of a map -> what one of its positions is called, where that is not "pair of
#: sensor and time" and the like.
_POSITIONS = {
    ("freqs", "times"): "time-frequency point",
    ("train_times", "test_times"): "pair of training and test times",
}


def axes_of(*names):
    """What a class of results says of its axes: field -> column."""
    return {name: AXES[name].column for name in names}


def point_of_axes(names, number=1):
    """What so many positions are called, "time points"."""
    points = [AXES[name].point or AXES[name].noun for name in names]
    noun = f"pair of {enumerated(points)}" if len(points) > 1 else "".join(points)
    return plural(_POSITIONS.get(tuple(names), noun) or "position", number)
