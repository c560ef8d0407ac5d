"""Positions of maps: how they are asked for, worded and compared; their neighbours."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda.results.places import Places, sensor_time_adjacency, unpack_places
from tests import build

TIMES, FREQS = np.arange(5) / 10, np.array([8.0, 16.0, 32.0])
NAMES = np.array(["Fz", "Cz", "Pz"])


def lattice(pairs=None, **axes):
    columns = {"times": "time", "freqs": "freq", "ch_names": "sensor"}
    columns |= {f"{word}_times": f"{word}_time" for word in ("train", "test")}
    return Places("Map", {name: columns[name] for name in axes}, axes, pairs)


def brain(space):
    index = np.arange(space.n_positions)
    where = {"positions": "position"}, {"positions": index}
    return Places(
        "VolumeResult", *where, np.array([index[:-1], index[1:]]), space.pack()
    )


COURSE = lattice(times=TIMES)
POWER = lattice(freqs=FREQS, times=TIMES)
SENSORS = lattice(np.array([[0, 1], [1, 2]]), ch_names=NAMES, times=TIMES)
CROSS = lattice(train_times=TIMES, test_times=TIMES[1:])
VOXELS, AREAS = brain(build.volume_space()), brain(build.region_space(4))


@pytest.mark.parametrize(
    ("places", "wanted", "one", "expected"),
    [
        (COURSE, None, False, np.s_[:]),
        (COURSE, (0.1, 0.3), False, np.s_[1:4]),
        (COURSE, 0.24, True, np.s_[2]),
        (COURSE, (0.1, 0.3), True, np.s_[1:4]),
        (CROSS, (0.1, 0.2), False, np.s_[1:3, :2]),
        (CROSS, (0.0, (0.1, 0.2)), True, np.s_[0, :2]),
        (POWER, (0.1, 0.2), False, np.s_[:, 1:3]),
        (POWER, (16.0, 0.4), True, np.s_[1, 4]),
        (SENSORS, "Cz", False, np.s_[1]),
        (SENSORS, ["Fz", "Pz"], False, np.s_[::2]),
        (SENSORS, ("Pz", 0.0), True, np.s_[2, 0]),
        (AREAS, ["Area 1", 4], False, np.s_[[1, 3]]),
        (AREAS, 2, True, np.s_[1]),
        (VOXELS, 0, True, np.s_[0]),
        (VOXELS, tuple(VOXELS.geometry.points[7] + 1), True, np.s_[7]),
    ],
)
def test_positions_are_found(places, wanted, one, expected):
    inside = np.zeros(places.shape, bool)
    inside[expected] = True
    assert_array_equal(places.find(wanted, one=one), inside)
    assert_array_equal(places.find(inside), inside)


@pytest.mark.parametrize(
    ("places", "wanted", "one", "message"),
    [
        (COURSE, (0.5, 0.6), False, "None of the times is between 0.5 and 0.6 s; the"),
        (COURSE, (0.2, 0.1), False, r"\(0\.2, 0\.1\).*\(from, to\) in seconds"),
        (COURSE, 0.46, True, "The times go from 0 to 0.4 s"),
        (COURSE, "Cz", False, "'where': 'Cz'. Allowed: None for the whole map"),
        (COURSE, np.ones(3, bool), False, r"has the shape \(3,\), and the map \(5,\)"),
        (COURSE, True, True, r"'where': True.* a time in seconds, or \(start, stop\)"),
        (SENSORS, ["Cz", "O1"], False, "no sensor is named 'O1'. The sensors are: 'Fz"),
        (SENSORS, "Cz", True, "a sensor by name, a time"),
        (AREAS, [], False, "a name or a list of names"),
        (AREAS, "V9", True, "no region of the name 'V9'"),
        (
            VOXELS,
            (500.0, 0, 0),
            True,
            r"nearest voxel of the mask, at x.* is 460.0 mm away",
        ),
        (VOXELS, (1, 2), True, r"\(x, y, z\) in mm"),
    ],
)
def test_positions_that_there_are_not_are_refused(places, wanted, one, message):
    with pytest.raises(ValueError, match=message):
        places.find(wanted, one=one)
    with pytest.raises(TypeError, match="'where': 3"):
        COURSE.find(3)


def test_positions_are_worded_and_listed():
    assert COURSE.describe() == "5 times from 0.000 to 0.400 s"
    assert lattice(times=TIMES[2:3]).describe() == "1 time, 0.200 s"
    assert SENSORS.describe() == "3 sensors x 5 times from 0.000 to 0.400 s"
    for places, position, words, nouns in [
        (COURSE, 3, "at 0.3 s", "time points"),
        (
            CROSS,
            6,
            "at training time 0.1 s and test time 0.3 s",
            "pairs of training an",
        ),
        (SENSORS, 7, "at sensor Cz and 0.2 s", "pairs of sensor and"),
        (VOXELS, 7, "at x, y, z = -40, -72, 40 mm", "voxels"),
        (AREAS, 1, "in region Area 1", "regions"),
    ]:
        assert places.at(position).startswith(words)
        assert places.noun(2).startswith(nouns)
        assert len(next(iter(places.columns().values()))) == places.n_positions
    rows = CROSS.columns()
    assert rows["train_time"][6] == TIMES[1]
    assert rows["test_time"][6] == TIMES[3]
    assert SENSORS.at(7, name=str.lower) == "at sensor cz and 0.2 s"


def test_neighbours_are_next_in_space_or_in_time():
    places = list(np.ndindex(3, 5))
    expected = [
        [abs(i - k) + abs(t - u) == 1 for k, u in places] for i, t in places
    ]  # the sensors are in a row
    found = sensor_time_adjacency(SENSORS.pairs, 3, 5).toarray()
    assert_array_equal(found, expected)
    assert_array_equal(SENSORS.adjacency().toarray(), expected)
    counted = np.arange(15) % 4 > 0
    some = SENSORS.adjacency(counted).toarray()
    assert_array_equal(some, np.array(expected)[counted][:, counted])
    assert COURSE.adjacency() is None
    with pytest.raises(ValueError, match="All positions of a lattice must count"):
        COURSE.adjacency(np.arange(5) > 0)
    maps = SENSORS.expand(np.arange(11.0), counted)
    assert_array_equal(maps.ravel()[counted], np.arange(11))
    assert np.isnan(maps.ravel()[~counted]).all()


def test_differences_of_places_are_worded():
    near, far = (lattice(times=TIMES + shift) for shift in (0.04, 0.06))
    assert COURSE.difference(lattice(times=TIMES + 1e-9)) == ""
    assert COURSE.apart(near) == pytest.approx(0.04, abs=1e-9)
    assert COURSE.apart(far) == COURSE.apart(COURSE) == 0
    assert COURSE.difference(near, within_sample=True) == ""
    assert "instead of 5 times from 0.000" in COURSE.difference(near)
    assert "instead of" in COURSE.difference(far, within_sample=True)
    one_other = lattice(times=np.where(TIMES == 0.2, 0.21, TIMES))
    assert "(number 3 is 0.21 instead of 0.2)" in COURSE.difference(one_other)
    other = replace(SENSORS, pairs=SENSORS.pairs[:, :1])
    assert SENSORS.difference(other) == "other neighbouring sensors"
    assert COURSE.difference(replace(COURSE, kind="X")) == "a X instead of a Map"
    assert VOXELS.difference(VOXELS) == ""
    shifted = brain(build.volume_space(affine=build.MNI + 1e-2))
    assert "grids with different affines" in VOXELS.difference(shifted)
    smaller = brain(build.volume_space((11, 12, 7)))
    assert "(grids of (11, 12, 7) and (11, 12, 8))" in VOXELS.difference(smaller)
    assert AREAS.difference(brain(build.region_space(5)))
    assert unpack_places(COURSE.pack()).difference(COURSE) == ""
    with pytest.raises(ValueError, match="These are no places of a map"):
        unpack_places({"kind": "Map"})
