"""Whether the tests see one-token breaks of the package, drawn at random.

    python .ci/breaks.py reach REACH [PYTEST ARGUMENTS]
    python .ci/breaks.py draw REACH OUT --number 150 --seed 0 --workers 2
    python .ci/breaks.py draw REACH OUT --under mvpa_kfda/kfda
    python .ci/breaks.py draw REACH OUT --of OTHER
    python .ci/breaks.py show OUT [OTHER]

`reach` runs all tests once and writes into the folder REACH which functions each one
enters. `draw` breaks a copy of the package that often, runs the tests that enter the
broken function until one fails, and appends a line to OUT for each break, unless it is
there already; with `--of` those of another record are looked at again. `show` counts
the breaks that were seen by room, lists the others, and compares them with those of
another suite.
"""

import argparse
import ast
import cProfile
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "mvpa_kfda"
#: Seconds after which tests that do not end have seen a break.
MOST = 900
#: Tests that are run first, of those that enter a function: the fastest.
FIRST = 40

SWAPPED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=",
    ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in",
    ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "*", ast.Mod: "//", ast.Pow: "*", ast.BitAnd: "|", ast.BitOr: "&",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip
NAMES = {
    "min": "max", "any": "all", "minimum": "maximum", "argmin": "argmax",
    "zeros": "ones", "floor": "ceil", "union1d": "intersect1d", "first": "last",
}  # fmt: skip
NAMES |= {other: name for name, other in NAMES.items()}


# ------------------------------------------------------------------------------- reach


class Reach:
    """A plugin that notes which functions of the package each test enters.

    What a fixture enters counts for all tests that ask for it.
    """

    def __init__(self, folder):
        self.profile, self.entered, self.of_fixtures = cProfile.Profile(), set(), {}
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"{os.getpid()}.jsonl").open("w")

    def note(self):
        """Add what has been entered since, and what it was."""
        self.profile.disable()
        found, package = set(), str(ROOT / PACKAGE) + os.sep
        for entry in self.profile.getstats():
            code = entry.code
            if not isinstance(code, str) and code.co_filename.startswith(package):
                path = os.path.relpath(code.co_filename, ROOT)
                found.add(f"{path}:{code.co_firstlineno}")
        self.profile.clear()
        self.entered |= found
        return found

    def pytest_fixture_setup(self, fixturedef, request):
        """Note what a fixture enters."""
        self.note()
        outer, self.entered = self.entered, set()
        self.profile.enable()
        yield
        self.note()
        self.of_fixtures[id(fixturedef)] = self.entered
        self.entered = outer | self.entered
        self.profile.enable()

    def pytest_runtest_protocol(self, item):
        """Write down what a test enters, by itself and by its fixtures."""
        self.entered, self.seconds = set(), 0.0
        self.profile.enable()
        yield
        self.note()
        fixtures = getattr(item, "_fixtureinfo", None)
        for defs in fixtures.name2fixturedefs.values() if fixtures else ():
            for each in defs:
                self.entered |= self.of_fixtures.get(id(each), set())
        record = {"test": item.nodeid, "seconds": self.seconds}
        self.file.write(json.dumps(record | {"entered": sorted(self.entered)}) + "\n")
        self.file.flush()

    def pytest_runtest_logreport(self, report):
        """Add the time that a test takes."""
        self.seconds += report.duration


def reach(folder, arguments):
    """Run the tests with the plugin."""
    import pytest

    for name in ("pytest_fixture_setup", "pytest_runtest_protocol"):
        setattr(Reach, name, pytest.hookimpl(wrapper=True)(getattr(Reach, name)))
    os.chdir(ROOT)
    arguments = ["-q", "-p", "no:randomly", "-p", "no:xdist", *arguments]
    return pytest.main(arguments, plugins=[Reach(folder)])


# -------------------------------------------------------------------------------- draw


def breaks_of(path):
    """Yield (line, column, end, new text) of every token that can be broken."""
    source = path.read_text()
    lines, tree = source.splitlines(), ast.parse(source)
    skipped = set()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        for part in (*parts, *getattr(node, "decorator_list", ())):
            if part is not None:
                skipped.update(map(id, ast.walk(part)))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.BinOp):
            gaps = [(node.left, node.op, node.right)]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            gaps = list(zip(sides, node.ops, sides[1:], strict=False))
        elif isinstance(node, ast.BoolOp):
            pairs = zip(node.values, node.values[1:], strict=False)
            gaps = [(left, node.op, right) for left, right in pairs]
        else:
            gaps = []
            yield from single(node, lines)
        for left, op, right in gaps:
            if type(op) in SWAPPED and left.end_lineno == right.lineno:
                number, start = left.end_lineno, left.end_col_offset
                gap = text_of(lines[number - 1], start, right.col_offset)
                old = gap.strip(" ()")
                if old and old in gap:
                    at = start + gap.index(old)
                    yield number, at, at + len(old), SWAPPED[type(op)]


def single(node, lines):
    """Yield the breaks of a node that is one token."""
    if getattr(node, "lineno", 0) != getattr(node, "end_lineno", None):
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.lineno, node.col_offset, node.col_offset + 4, ""
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        new = node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.1
        new = not node.value if isinstance(node.value, bool) else new
        yield node.lineno, node.col_offset, node.end_col_offset, repr(new)
    elif isinstance(node, ast.Name | ast.Attribute):
        name = getattr(node, "id", None) or node.attr
        if name in NAMES:
            end = node.end_col_offset
            yield node.end_lineno, end - len(name), end, NAMES[name]


def text_of(line, start, end):
    """A part of a line, by offsets in bytes as `ast` counts them."""
    return line.encode()[start:end].decode()


def functions_of(path):
    """The (first, last) lines of all functions, decorators included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield first, node.end_lineno


def drawn(number, seed, under=PACKAGE):
    """Breaks, drawn from a folder of the package: (path, line, column, end, new)."""
    found = []
    for path in sorted((ROOT / under).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        found += [(name, *each) for each in breaks_of(path)]
    return random.Random(seed).sample(found, min(number, len(found)))


def found_again(records):
    """Breaks that were looked at before, in a package that may have changed since."""
    for record in records:
        path, line = record["break"][:2]
        same = [
            broken
            for broken in breaks_of(ROOT / path)
            if lines_of(ROOT / path, broken) == (record["was"], record["is"])
        ]
        if same:
            yield path, *min(same, key=lambda broken: abs(broken[0] - line))


def lines_of(file, broken):
    """The line of a break before and after it."""
    line, start, end, new = broken
    was = file.read_text().splitlines()[line - 1].encode()
    return was.decode().strip(), (
        was[:start] + new.encode() + was[end:]
    ).decode().strip()


def tests_of(reached, broken):
    """The tests that enter the broken function, the fastest first.

    Of what no function holds, those that enter the file.
    """
    path, line = broken[:2]
    inside = [(first, last) for first, last in functions_of(ROOT / path)]
    inside = [first for first, last in inside if first <= line <= last]
    # Tests enter an inner function by way of those around it.
    keys = {f"{path}:{first}" for first in inside}
    found = []
    for each in reached:
        entered = each["entered"]
        of_file = any(key.startswith(f"{path}:") for key in entered)
        if keys & set(entered) if keys else of_file:
            found.append((each["seconds"], each["test"]))
    return [test for _, test in sorted(found)]


def stages(tests):
    """The tests in the order they are run: a few, one case of each, all others."""
    one_each = list({test.partition("[")[0]: test for test in reversed(tests)}.values())
    one_each.reverse()
    rest = [test for test in tests if test not in set(one_each)]
    return [part for part in (one_each[:FIRST], one_each[FIRST:], rest) if part]


def look(tree, reached, broken):
    """Break a copy of the checkout, and tell which test saw it."""
    path, line, start, end, new = broken
    file, tests = tree / path, tests_of(reached, broken)
    source = file.read_text()
    lines = source.splitlines(keepends=True)
    raw = lines[line - 1].encode()
    lines[line - 1] = (raw[:start] + new.encode() + raw[end:]).decode()
    was, is_ = lines_of(file, broken[1:])
    record = {"break": list(broken), "was": was, "is": is_}
    record |= {"n_tests": len(tests), "seen": None}
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    file.write_text("".join(lines))
    try:
        for part in stages(tests):
            (tree / "tests.txt").write_text("\n".join(part))
            command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header"]
            command += ["-p", "no:randomly", "-p", "no:cacheprovider", "@tests.txt"]
            try:
                done = subprocess.run(
                    command, cwd=tree, env=environment, timeout=MOST,
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return record | {"seen": "no end"}
            if "not found: " in done.stderr:
                raise ValueError(f"Tests have changed since: {done.stderr}")
            if done.returncode:
                lines = done.stdout.splitlines() or done.stderr.splitlines()
                said = [x for x in lines if x.startswith(STATUSES)]
                return record | {"seen": (said or lines[-1:])[0]}
    finally:
        file.write_text(source)
    return record


STATUSES = ("FAILED", "ERROR")


def draw(folder, out, number, seed, under, of, workers):
    """Look at drawn breaks, in as many copies as there are workers."""
    reached = [
        json.loads(line)
        for file in sorted(folder.glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    done = set()
    if out.exists():
        done = {tuple(each["break"]) for each in map(json.loads, out.open())}
    if of:
        breaks = found_again(map(json.loads, of.open()))
    else:
        breaks = drawn(number, seed, under)
    waiting = [each for each in breaks if each not in done]
    with tempfile.TemporaryDirectory() as base, ThreadPoolExecutor(workers) as pool:
        trees = [Path(base) / str(i) for i in range(workers)]
        ignored = shutil.ignore_patterns(".git", ".venv", "_build", "__pycache__")
        for tree in trees:
            shutil.copytree(ROOT, tree, ignore=ignored)

        def work(broken):
            tree = trees.pop()
            record = look(tree, reached, broken)
            trees.append(tree)
            with out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print("seen" if record["seen"] else "NOT SEEN", *broken[:2], flush=True)

        list(pool.map(work, waiting))


# -------------------------------------------------------------------------------- show


def show(out, other=None):
    """Print how many breaks were seen by room, and those that were not."""
    records = list(map(json.loads, out.open()))
    before = list(map(json.loads, other.open())) if other else []
    before = {(r["break"][0], r["was"], r["is"]): r["seen"] for r in before}
    rooms = defaultdict(list)
    for record in records:
        rooms[Path(record["break"][0]).parts[1]].append(bool(record["seen"]))
    for room, seen in sorted(rooms.items()):
        print(f"{room:14} {sum(seen):3} of {len(seen):3}")
    print(f"{'all':14} {sum(bool(r['seen']) for r in records):3} of {len(records):3}")
    for record in records:
        if not record["seen"]:
            path, line = record["break"][:2]
            key = path, record["was"], record["is"]
            lost = "seen before: " if before.get(key) else ""
            print(f"\n{lost}{path}:{line} ({record['n_tests']} tests)")
            print(f"    {record['was']}\n    {record['is']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    each = commands.add_parser("reach")
    each.add_argument("folder", type=Path)
    each.add_argument("arguments", nargs=argparse.REMAINDER)
    each = commands.add_parser("draw")
    each.add_argument("folder", type=Path)
    each.add_argument("out", type=Path)
    each.add_argument("--number", type=int, default=150)
    each.add_argument("--seed", type=int, default=0)
    each.add_argument("--under", default=PACKAGE)
    each.add_argument("--of", type=Path)
    each.add_argument("--workers", type=int, default=2)
    each = commands.add_parser("show")
    each.add_argument("out", type=Path)
    each.add_argument("other", type=Path, nargs="?")
    given = vars(parser.parse_args())
    sys.exit(globals()[given.pop("command")](**given))
