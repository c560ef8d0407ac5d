"""The design of an analysis: trials by run and class, folds, what may be exchanged."""

from __future__ import annotations

import textwrap
import warnings
from dataclasses import dataclass, field
from numbers import Integral
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..data.images import Classes, read_labels
from ..data.trials import Confounds
from ..inference.permutation import (
    SCHEMES,
    Permute,
    arrangements_of,
    find_biased,
    find_few,
    find_price,
)
from ..kfda.folds import PARTS, CrossValidation, Folds, find_cut_groups, left_out_folds
from ..results.base import SubjectResult
from ..results.fields import figure_method
from ..utils.advice import described, is_foreign
from ..utils.checks import (
    check_count,
    check_labels,
    check_option,
    collected_warnings,
    counted,
)
from ..utils.plain import as_call, is_record
from ..utils.problems import Problem
from ..viz.design import plot_design
from ..viz.notebook import make_html
from .analysis import draw_folds
from .orders import find_in_order
from .problems import (
    count_by_group,
    find_absent_class,
    find_alike_names,
    find_confounded,
    find_leak,
    find_misread,
    find_missing_class,
    find_rare,
    find_short_runs,
    find_unequal,
    measure_confounds,
)
from .procedure import Repeating, describes_options

if TYPE_CHECKING:
    from pandas import DataFrame

#: Classes that a line names one by one.
_NAMED = 6


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """An experimental design, as analysed by :func:`check_design`.

    ``print(design)`` describes it, ``design.plot()`` draws it.

    Parameters
    ----------
    classes : array, shape (c,)
        The labels of the classes; empty for regression.
    y : array, shape (n,)
        Class of each trial, an index into `classes`, or its target value.
    groups : array, shape (n,), or None
        Group of every trial.
    folds : list of (train, test), or None
        Row indices of each fold; None if separate trials are tested, or folds could not
        be made.
    blocks : array of int, shape (n,), or None
        The permutation block of each trial, -1 for labels that are never permuted; None
        without permutations.
    parameters : dict
        ``"cv"``, ``"permute"`` (the scheme), ``"n_permutations"``, ``"arrangements"``
        (the number of distinct ones, inf if past counting), each where it is known.
    problems : list of Problem
        The problems found: each has a ``name``, a ``text``, a ``severity`` ("error":
        the design cannot be decoded; "warning": as serious as the warnings of the
        decoding functions; "note") and ``numbers``.
    confounds : DataFrame
        For each confound, how it is ``taken_as``, continuous or categorical,
        ``eta_squared``, the proportion of its variance explained by the classes, and
        ``p`` by permutation, corrected for the number of confounds.
    chosen : array of bool, shape (n,), or None
        Which trials are used for training only; None: any may be tested.
    noun : str
        What a row of `y` is: ``"trial"`` or ``"average"``.

    Examples
    --------
    >>> from mvpa_kfda import check_design
    >>> design = check_design(["cat", "dog", "dog", "cat"] * 6, cv=4)
    >>> design.table
           cat  dog  trials test_sets
    group
    all     12   12      24    0 to 3
    """

    classes: NDArray
    y: NDArray
    groups: NDArray | None = None
    folds: list[tuple[NDArray, NDArray]] | None = None
    blocks: NDArray | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    confounds: DataFrame = field(default_factory=pd.DataFrame)
    chosen: NDArray | None = None
    noun: str = "trial"

    @property
    def table(self) -> DataFrame:
        """Trials of each class in each group, and the test sets that contain them.

        For regression, the mean, minimum and maximum of the targets.
        """
        groups = np.full(len(self.y), "all") if self.groups is None else self.groups
        names, group = np.unique(groups, return_inverse=True)
        table = pd.DataFrame(index=pd.Index(names, name="group"))
        if len(self.classes):
            table[self.classes.tolist()] = count_by_group(
                self.y, groups, len(self.classes)
            )[1]
        group = group.reshape(-1)
        table["trials"] = np.bincount(group)
        if not len(self.classes):
            of_values = ["mean", "min", "max"]
            values = pd.Series(self.y).groupby(group).agg(of_values)
            table[of_values] = values.to_numpy()
        if self.folds is not None:
            held = [np.isin(np.arange(len(names)), group[x]) for _, x in self.folds]
            table["test_sets"] = [
                _word_numbers(np.flatnonzero(each)) for each in np.transpose(held)
            ]
        return table

    #: Its figure is none of a brain.
    geometry: ClassVar[None] = None

    plot = figure_method(plot_design)

    @property
    def summary(self) -> str:
        """A one-line description, without the problems."""
        return "; ".join(self.facts.values())

    @property
    def facts(self) -> dict[str, str]:
        """A description of the design, by topic."""
        parameters, parts = self.parameters, [counted(len(self.y), self.noun)]
        if len(self.classes):
            numbers = np.bincount(self.y, minlength=len(self.classes))
            pairs = zip(self.classes, numbers, strict=True)
            each = ", ".join(f"{name} {number}" for name, number in pairs)
            named = f" ({each})" if len(self.classes) <= _NAMED else ""
            parts.append(f"{len(self.classes)} classes{named}")
        if self.groups is not None:
            parts.append(counted(len(np.unique(self.groups)), "group"))
        if self.chosen is not None:
            parts.append(f"trained on {int(self.chosen.sum())}, tested on the others")
        words, cv = {"Trials": ", ".join(parts)}, parameters.get("cv")
        if self.folds is not None:
            name = f" ({cv})" if cv else ""
            words["Folds"] = f"{counted(len(self.folds), 'fold')}{name}"
        elif cv:
            words["Folds"] = str(cv)
        if self.blocks is not None:
            moved = "labels" if len(self.classes) else "values"
            among = SCHEMES[parameters["permute"]].words
            among = among.format(trials="trials", and_group="", of_group="")
            words["Exchanged"] = f"{moved} permuted {among}"
            if (count := parameters.get("arrangements")) is not None:
                number = f"{count:,}" if count < 1e6 else f"{float(count):.1e}"
                number = "more than 1e300" if number == "inf" else number
                words["Exchanged"] += f", {number} arrangements"
        return words

    def __repr__(self):
        """Describe the design in one line."""
        return f"<Design: {self.summary}; {self.worded_problems}>"

    @property
    def worded_problems(self) -> str:
        """The number of problems, and their names."""
        names = ", ".join(dict.fromkeys(each.name for each in self.problems))
        if not names:
            return "no problem found"
        return f"{counted(len(self.problems), 'problem')}: {names}"

    def __str__(self):
        """Say all that is known, problems in full."""
        lines = [f"{name}: {words}" for name, words in self.facts.items()]
        for name, row in self.confounds.iterrows():
            shares = f"eta squared {row['eta_squared']:.2f} (p = {row['p']:.2g})"
            lines.append(f"Confound, {name}: {row['taken_as']}, {shares}")
        lines.append(self.worded_problems.capitalize())
        for each in self.problems:
            text = f"- {each.name} ({each.severity}): {each.text}"
            lines += textwrap.wrap(text, 88, subsequent_indent="  ")
        return "\n".join(lines)

    def _repr_html_(self):
        """Describe the design in a notebook, with its picture."""
        facts = self.facts
        facts["Problems"] = self.worded_problems
        facts |= {f"{x.name} ({x.severity})": x.text for x in self.problems}
        return make_html(self, facts)


@describes_options
def check_design(
    y: ArrayLike | tuple[DataFrame | str | PathLike[str], str],
    groups: ArrayLike | str | None = None,
    cv: CrossValidation = None,
    *,
    classes: Classes = None,
    confounds: Confounds = None,
    train_on: ArrayLike | str | None = None,
    n_permutations: int = 1000,
    permute: Permute = "auto",
) -> Design:
    """Check a design for problems before anything is decoded.

    Detects problems that the decoding functions would warn about or reject, and some
    more, from labels alone: classes missing from runs, unequal classes, folds that cut
    through runs, classes missing from training sets or from most test sets, too few
    arrangements of the labels for the permutations, confounds that covary with the
    classes, and an order of trials that lets noise pass for an effect. The latter is
    found out by simulation: recordings without an effect, of noise that lasts, drifts,
    or carries over from the previous trial, are decoded with these folds and labels. A
    warning names the scheme of `permute` that prevents it, if one does.

    Parameters
    ----------
    y : array_like, shape (n_trials,) | tuple of (table, column)
        ... In the order of recording. A tuple names the column of a DataFrame (such as
        ``epochs.metadata``) or of a .tsv or .csv file.
    groups : array_like, shape (n_trials,) | str | None
        ... A string is a column of y's table.
    classes : None | list of labels | dict of name -> label or list of labels
        The labels to decode, ``["face", "house"]``, or classes of several labels,
        ``{"animate": ["face", "cat"], "inanimate": "house"}``; None: all.
    confounds : str | list of str | array_like, shape (n_trials, ...) | None
        ... Here each is compared with the classes. A string or list of strings: columns
        of the table of `y`.
    train_on : str | array_like of bool, shape (n_trials,) | None
        ... A string is a query on the table of `y`.

    Returns
    -------
    design : Design
        ``.problems``, ``.table`` (trials by group and class), ``.plot()``, and
        ``print(design)`` for a description.

    Raises
    ------
    ValueError, TypeError
        If labels, groups, confounds or `train_on` do not match. Folds and permutations
        that the decoding functions would reject are problems of severity "error"
        instead.

    Examples
    --------
    All runs have the same order:

    >>> import numpy as np
    >>> from mvpa_kfda import check_design
    >>> order = np.random.default_rng(0).permutation(["cat", "dog"] * 12)
    >>> runs = np.repeat([1, 2, 3, 4], 24)
    >>> design = check_design(np.tile(order, 4), runs)
    >>> [problem.name for problem in design.problems]
    ['order']
    >>> design.table
           cat  dog  trials test_sets
    group
    1       12   12      24         0
    2       12   12      24         1
    3       12   12      24         2
    4       12   12      24         3
    """
    if is_foreign(y):
        raise TypeError(
            f"y must hold labels; got {described(y)}, which check_design does not "
            "need. Pass one label for each trial; those of epochs are "
            "(epochs.metadata, column) or epochs.events[:, 2]."
        )
    trials, given, kept, _ = read_labels(y, groups, confounds, train_on, classes)
    numbers = None if classes is None else kept
    y, groups = trials.y, trials.groups
    confounds, train_on = trials.confounds, trials.train_on
    n_permutations = check_count("n_permutations", n_permutations)
    check_option("permute", permute, get_args(Permute))
    if isinstance(cv, Integral):
        cv = check_count("cv", cv, minimum=2)
    classes, codes = check_labels(y, len(y))
    if groups is not None and len(groups) != len(y):
        raise ValueError(
            f"groups has {len(groups)} values for {len(y)} trials. Pass one for each."
        )
    folds, problems = _make_folds(cv, codes, groups, classes, train_on)
    chosen = None if train_on is None else train_on.mask
    blocks, parameters, exchange = None, {}, []
    if folds is not None:
        parameters["cv"] = folds.name.removeprefix("cv=")
        if n_permutations:
            labels = codes, folds, groups, chosen
            blocks, known, exchange = _exchange(*labels, n_permutations, permute, cv)
            parameters |= known
    design = codes, groups, classes, folds
    each = () if confounds is None else confounds.each
    names, taken_as = [one.name for one in each], [one.taken_as for one in each]
    table = pd.DataFrame({"taken_as": taken_as}, names, dtype=object)
    measured = np.empty((2, 0))
    if each:
        measured = measure_confounds([one.columns for one in each], codes, groups)
    table["eta_squared"], table["p"] = measured
    problems += _find_in_labels(*design) + exchange
    scheme = parameters.get("permute")
    problems += find_in_order(codes, groups, folds, scheme, numbers=numbers)
    problems += [find_short_runs(*given), *find_confounded(names, *measured)]
    problems = [*filter(None, problems), *find_misread(confounds, groups, folds)]
    pairs, known = None if folds is None else folds.pairs, (blocks, parameters)
    return Design(classes, codes, groups, pairs, *known, problems, table, chosen)


def design_of(result: SubjectResult) -> Design:
    """Return the design of a result, as far as the result knows it.

    Confounds are not kept, nor are numbers of dropped trials. Of repeats the first is
    shown. Where trials were averaged, the design is that of the averages.

    Parameters
    ----------
    result : result of one subject
        Of classification or regression, at any positions.

    Returns
    -------
    design : Design
        As of :func:`mvpa_kfda.check_design`. Without permutations nothing is known of
        what may be exchanged.

    Raises
    ------
    TypeError
        If it is a result of a group or a comparison, which has no trials.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate
    >>> from mvpa_kfda.decoding.design import design_of
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 5)), rng.permutation(np.tile([0, 1], 20))
    >>> design_of(cross_validate(X, y, cv=5, n_permutations=99, random_state=0))
    <Design: 40 trials, 2 classes (0 20, 1 20); 5 folds (KFold(n_splits=5, \
random_state=None, shuffle=False)); labels permuted among all trials, 1.4e+11 \
arrangements; no problem found>
    """
    if not isinstance(result, SubjectResult):
        raise TypeError(
            f"A {type(result).__name__} has no trials, so no design. Pass a result of "
            "one subject, such as one of those it was computed from."
        )
    parameters, folds, groups = result.parameters, _folds_of(result), result.groups
    n, P = len(result.y) // result.n_repeats, result.n_permutations
    y, groups = result.y[:n], None if groups is None else groups[:n]
    chosen = None if folds is None else folds.train_mask
    known = {"cv": _worded_cv(parameters["cv"])} if "cv" in parameters else {}
    numbers = parameters.get("recorded_order")
    numbers = None if numbers is None else np.argsort(numbers)
    blocks, few, scheme = None, None, parameters.get("permute")
    if P and scheme in SCHEMES:
        codes = np.unique(y, return_inverse=True)[1].reshape(-1)
        if result.mode == "other_labels":  # two labels move as one
            codes = codes * len(result.classes) + result.y_test
        # No permutations, of which there may be few: these are known.
        numbers = None if result.members is not None else numbers
        labels = codes, folds, groups, chosen
        blocks, more, _ = _exchange(*labels, 0, scheme, time=numbers)
        if result.members is not None and result.n_repeats > 1:  # trials are exchanged
            more.pop("arrangements", None)
        if parameters.get("exact"):
            more["arrangements"] = P + 1
        known |= more | {"permute": scheme, "n_permutations": P}
        if "arrangements" in known:
            renamings = parameters.get("renamings", 1)
            few = find_few(known["arrangements"], P, scheme, renamings)
    problems = [None if folds is None else find_leak(folds, groups)]
    if len(result.classes):
        problems += _find_in_labels(y, groups, result.classes, folds)
    if result.members is None:
        about = y, groups, folds, known.get("permute")
        regression = not len(result.classes)
        problems += find_in_order(*about, numbers=numbers, regression=regression)
    problems.append(few if few and few.severity == "warning" else None)
    return Design(
        result.classes,
        y,
        groups,
        None if folds is None else folds.pairs,
        blocks,
        known,
        [*filter(None, problems)],
        chosen=chosen,
        noun="trial" if result.members is None else "average",
    )


def _make_folds(cv, codes, groups, classes, train_on):
    """The folds, None where they are refused, and the problems about them."""
    try:
        with warnings.catch_warnings(), collected_warnings() as told:
            # Of what is listed here; that there are very many is said at once.
            warnings.simplefilter("ignore", UserWarning)
            folds = draw_folds(cv, codes, groups, classes, None, train_on)
    except ValueError as error:
        return None, [Problem("folds", str(error), severity="error")]
    leak = find_cut_groups(cv, groups) or find_leak(folds, groups)
    found = [x for x in (leak, find_absent_class(folds, codes, classes)) if x]
    told = {*told}.difference(problem.text for problem in found)
    return folds, found + [Problem("folds", text) for text in told]


def _find_in_labels(codes, groups, classes, folds):
    """The problems of the numbers of labels."""
    return [
        find_alike_names(codes, classes),
        find_missing_class(codes, groups, classes),
        find_unequal(codes, classes),
        None if folds is None else find_rare(folds.tests, codes, classes),
    ]


def _exchange(
    codes, folds, groups, chosen, n_permutations, permute, cv=None, time=None
):
    """The blocks (n,) of exchange, what is known of it, and its problems.

    A splitter `cv` that may look at the labels is shown the exchanged ones.
    """
    blocks, moved, price = np.full(len(codes), -1), np.arange(len(codes)), None
    try:
        if Repeating().is_shown(cv, folds, permute, None):
            price = find_price(folds) if folds.sees_labels else None
            folds = None
        elif chosen is not None:
            moved, folds = np.flatnonzero(chosen), left_out_folds(folds)
            codes = codes[chosen]
            groups, time = (None if x is None else x[chosen] for x in (groups, time))
        options = {"folds": folds, "groups": groups, "permute": permute, "time": time}
        options["alike"] = chosen is None
        with collected_warnings() as told:
            found = arrangements_of(codes, n_permutations, **options)
            found.check(n_permutations)
    except ValueError as error:
        return None, {}, [Problem("exchange", str(error), severity="error")]
    blocks[moved] = found.units.trial_blocks
    known = {"permute": found.scheme, "n_permutations": n_permutations}
    few = find_few(found.units.count, n_permutations, found.scheme, found.renamings)
    problems = [price, find_biased(permute, folds), few]
    problems += [Problem("exchange", text) for text in told]
    return blocks, known | {"arrangements": found.units.count}, problems


def _worded_cv(splitter):
    """Word the splitter that a result records."""
    if splitter is None:
        return "none: tested on other trials"
    return as_call(splitter) if is_record(splitter) else splitter


def _folds_of(result):
    """The folds of the first repeat; None where other trials were tested."""
    if result.tests_other_trials:
        return None
    r, chosen, cv = result.n_repeats, result.train_rows, result.parameters.get("cv")
    n, n_folds = len(result.y) // r, len(result.tests) // r
    return Folds(
        result.tests[:n_folds],
        n,
        None,
        _worded_cv(cv) if "cv" in result.parameters else "the folds",
        None if result.trains is None else result.trains[:n_folds],
        None if chosen is None else np.isin(np.arange(n), chosen),
        balanced=is_record(cv) and cv["name"] == PARTS,
    )


def _word_numbers(numbers):
    """Word ascending numbers: "0", "0, 2" or "0 to 9"."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
