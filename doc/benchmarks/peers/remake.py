"""Make the numbers of other programs again: what goes in, and what came out.

The numbers are those of ``tests/peers``; ``README.rst`` there names programs, versions
and licences. With a folder of your own, in that of
the scripts::

    python remake.py inputs FOLDER
    octave-cli run_mvpa_light.m FOLDER path/to/MVPA-Light
    octave-cli run_direct.m FOLDER path/to/Fast-Least-Squares
    octave-cli run_prevalence.m FOLDER path/to/prevalence-permutation
    octave-cli run_cosmomvpa.m FOLDER path/to/CoSMoMVPA/mvpa
    Rscript run_r.R FOLDER
    python run_rsatoolbox.py FOLDER
    python run_sanssouci.py FOLDER
    python remake.py outputs FOLDER

The last line takes the programs that were run and says how far their numbers are from
those in ``tests/peers``; ``--write`` puts them there. None of these programs is needed
to use or to test the package.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.io import loadmat, savemat
from scipy.stats import norm

FROZEN = Path(__file__).parents[3] / "tests" / "peers"
#: What counts from 1 in Octave and R, and from 0 in Python.
COUNTED = {
    *("y", "y2", "fold", "perm"),
    *("multiclass_lda", "kernel_fda", "direct_class", "fda", "fda_empirical", "lda"),
}
#: What goes into a program.
INPUTS = {
    "mvpa_light": ("X", "y", "fold", "lam", "klam", "gamma", "kernel", "yr", "perm"),
    "mvpa_light_time": ("X", "y", "fold", "X2", "y2", "lam"),
    "prevalence": ("a", "alpha"),
    "cosmomvpa": ("z", "adjacency", "step", "level", "threshold"),
    "r": ("X", "y", "test", "kind", "df", "lam", "omega", "few", "null"),
    "rsatoolbox": ("X",),
    "rsatoolbox_rdm": ("X", "y", "fold"),
    "sanssouci": ("rows", "sets", "alpha"),
}


def read(name):
    """Return the cases of a file as a list of dictionaries of arrays."""
    with np.load(FROZEN / f"{name}.npz") as file:
        cases = {}
        for key in file.files:
            number, field = key.split("/")
            cases.setdefault(number, {})[field] = file[key]
    return [cases[number] for number in sorted(cases)]


def write(name, cases):
    """Write cases to the file of the tests."""
    arrays = {
        f"{number:02d}/{field}": value
        for number, case in enumerate(cases)
        for field, value in case.items()
    }
    np.savez_compressed(FROZEN / f"{name}.npz", **arrays)


# ------------------------------------------------------------------------ what goes in


def chain(n):
    """Return the adjacency of n positions in a row."""
    return np.eye(n, k=1) + np.eye(n, k=-1)


def lattice(n_rows, n_columns):
    """Return the adjacency of a lattice."""
    rows, columns = (np.eye(n) for n in (n_rows, n_columns))
    return np.kron(chain(n_rows), columns) + np.kron(rows, chain(n_columns))


def scattered(rng, n):
    """Return the adjacency of points in a square that are near each other."""
    points = rng.random((n, 2))
    apart = np.square(points[:, None] - points).sum(axis=2)
    return (apart < 0.02) * (1.0 - np.eye(n))


def draw_maps():
    """Draw smooth maps with an effect in the first, and 39 without, as z-scores."""
    rng = np.random.default_rng(11)
    graphs = [chain(40), lattice(7, 8), scattered(rng, 60), lattice(4, 12)]
    cases = []
    for adjacency, step, level in zip(
        graphs, (0.1, 0.2, 0.05, 0.2), (0.05, 0.01, 0.2, 0.05), strict=True
    ):
        n = len(adjacency)
        smooth = adjacency + np.eye(n)
        smooth /= smooth.sum(axis=0)
        maps = rng.standard_normal((40, n)) @ smooth
        maps[0] += 2 * (rng.random(n) < 0.2) @ smooth * maps.std()
        z = (maps - maps.mean(axis=0)) / maps.std(axis=0)
        fields = {"z": z, "adjacency": adjacency, "step": step, "level": level}
        fields["threshold"] = norm.isf(level)
        cases.append({name: np.asarray(value) for name, value in fields.items()})
    return cases


def draw_samples():
    """Draw trials of 2 to 5 classes with a ridge, a matrix of penalties, or a df."""
    rng = np.random.default_rng(31)
    cases = []
    for i in range(15):
        kind, n_classes = ("ridge", "matrix", "df")[i % 3], 2 + i % 4
        n, p = int(rng.integers(12, 20)) * n_classes, int(rng.integers(4, 24))
        y = rng.permutation(np.r_[np.arange(n_classes), rng.integers(0, n_classes, n)])
        X = rng.standard_normal((len(y), p)) + rng.standard_normal((n_classes, p))[y]
        test = np.sort(rng.permutation(len(y))[: len(y) // 3])
        assert np.bincount(np.delete(y, test), minlength=n_classes).min() >= 2
        fields = {"X": X, "y": y, "test": test, "kind": kind, "df": 1 + 0.4 * p}
        fields["lam"] = 10 ** rng.uniform(-1, 2)
        fields["omega"] = 2 * np.eye(p) - 0.9 * chain(p)
        # One feature of few values: areas under curves with ties.
        fields["few"] = np.rint(2 * X[:, 0])
        fields["null"] = np.rint(20 * rng.random((40, 25)))
        cases.append({name: np.asarray(value) for name, value in fields.items()})
    return cases


def draw_noise():
    """Draw trials of correlated features, fewer and more than trials."""
    rng = np.random.default_rng(41)
    shapes = [(30, 5), (40, 20), (20, 35), (60, 12)]
    return [
        {"X": rng.standard_normal((n, p)) @ (np.eye(p) + 0.5 * rng.random((p, p)))}
        for n, p in shapes
    ]


#: How the inputs that were drawn for this package were drawn.
def draw_runs():
    """Draw trials of 3 to 6 classes in runs, unequally many of each in some cases."""
    rng = np.random.default_rng(51)
    cases = []
    for n_classes, n_runs, p, spare in [(3, 4, 5, 0), (4, 3, 30, 9), (6, 5, 12, 17)]:
        y = np.tile(np.arange(n_classes), 2 * n_runs)
        fold = np.repeat(np.arange(n_runs), 2 * n_classes)
        kept = np.sort(rng.permutation(len(y))[spare:])
        kept = np.union1d(
            kept,
            [
                np.flatnonzero((y == k) & (fold == r))[0]
                for k in range(n_classes)
                for r in range(n_runs)
            ],
        )
        y, fold = y[kept], fold[kept]
        X = rng.standard_normal((len(y), p)) + rng.standard_normal((n_classes, p))[y]
        cases.append({"X": X, "y": y, "fold": fold})
    return cases


def draw_rows():
    """Draw smooth maps with ties, an effect in the first, and sets of positions."""
    rng = np.random.default_rng(61)
    cases = []
    for n_rows, m, steps, alpha in [
        (64, 30, 0, 0.05),
        (128, 50, 2, 0.1),
        (64, 9, 1, 0.2),
    ]:
        rows = rng.standard_normal((n_rows, m + 2))
        rows = rows[:, :m] + rows[:, 1:-1] + rows[:, 2:]
        rows[0, : m // 2] += 4
        rows = np.rint(steps * rows) if steps else rows
        sets = rng.random((20, m)) < rng.random((20, 1))
        sets[0], sets[1] = True, np.arange(m) < m // 2
        sets[~sets.any(axis=1), 0] = True
        cases.append({"rows": rows, "sets": sets, "alpha": np.array(alpha)})
    return cases


DRAWN = {
    "cosmomvpa": draw_maps,
    "r": draw_samples,
    "rsatoolbox": draw_noise,
    "rsatoolbox_rdm": draw_runs,
    "sanssouci": draw_rows,
}


def inputs_of(name):
    """Return what goes into a program: what is kept, or else drawn."""
    if not (FROZEN / f"{name}.npz").exists():
        return DRAWN[name]()
    return [
        {key: case[key] for key in INPUTS[name] if key in case} for case in read(name)
    ]


def for_octave(case):
    """Count from 1, with columns of floats, as Octave does; texts as they are."""
    values = {}
    for key, value in case.items():
        if value.dtype.kind == "U":
            values[key] = str(value)
            continue
        value = (value + (key in COUNTED)).astype(float)
        values[key] = value[:, np.newaxis] if value.ndim == 1 else value
    return values


def write_inputs(folder):
    """Write the inputs of all programs: for Octave, R and Python."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in INPUTS:
        cases = inputs_of(name)
        if name == "rsatoolbox":
            arrays = {str(i): case["X"] for i, case in enumerate(cases)}
            np.savez(folder / "rsatoolbox_in.npz", **arrays)
        elif name in ("rsatoolbox_rdm", "sanssouci"):
            arrays = {
                f"{i}/{key}": v for i, c in enumerate(cases) for key, v in c.items()
            }
            np.savez(folder / f"{name}_in.npz", **arrays)
        elif name == "r":
            lists = [
                {key: value.tolist() for key, value in case.items()} for case in cases
            ]
            (folder / "r_in.json").write_text(json.dumps(lists))
        else:
            cells = np.empty(len(cases), object)
            cells[:] = [for_octave(case) for case in cases]
            savemat(folder / f"{name}_in.mat", {"cases": cells})


# ----------------------------------------------------------------------- what came out


def read_outputs(path):
    """Return what a program wrote, as a list of dictionaries of arrays."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            if any("/" in key for key in file.files):
                numbers = sorted({key.split("/")[0] for key in file.files})
                fields = {key.split("/")[1] for key in file.files}
                return [{x: file[f"{i}/{x}"] for x in fields} for i in numbers]
            field = "distances" if "rdm" in path.name else "covariance"
            return [{field: file[key]} for key in file.files]
    if path.suffix == ".json":
        cases = json.loads(path.read_text())
        return [
            {key: np.array(value, dtype=float) for key, value in case.items()}
            for case in cases
        ]
    cells = loadmat(path, simplify_cells=True)["outputs"]
    return [
        {key: np.asarray(value) for key, value in case.items()}
        for case in np.atleast_1d(cells)
    ]


def tidied(key, value, frozen):
    """Count classes from 0, and have the shape of the number that is kept."""
    value = value - (key in COUNTED)
    if key in COUNTED:
        value = value.astype(np.int16)
    return value.reshape(frozen.shape) if frozen is not None else value


def compare(name, outputs, rewrite):
    """Say how far the numbers are from those that are kept; keep them if asked to."""
    kept = read(name) if (FROZEN / f"{name}.npz").exists() else None
    cases, furthest = inputs_of(name) if kept is None else kept, {}
    for case, output in zip(cases, outputs, strict=True):
        for key, value in output.items():
            value = tidied(key, value, case.get(key))
            if key in case:
                both = np.isnan(value) & np.isnan(case[key])
                apart = np.where(both, 0.0, np.abs(value - case[key]))
                furthest[key] = np.maximum(furthest.get(key, 0.0), apart.max())
            case[key] = value
    for key, apart in furthest.items():
        print(f"{name:16s} {key:16s} furthest apart {apart:.1e}")
    if rewrite:
        write(name, cases)


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("inputs", "outputs"))
    parser.add_argument("folder", type=Path, help="where files of the programs are")
    parser.add_argument("--write", action="store_true", help="rewrite tests/peers")
    arguments = parser.parse_args()
    if arguments.what == "inputs":
        write_inputs(arguments.folder)
        return
    for path in sorted(arguments.folder.glob("*_out*")):
        name = path.stem.split("_out")[0]
        compare(name, read_outputs(path), arguments.write)


if __name__ == "__main__":
    main()
