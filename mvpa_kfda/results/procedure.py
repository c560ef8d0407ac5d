"""The options of an analysis, as a result keeps them and as they can be passed on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from sklearn import model_selection

from ..kfda import kernels, penalties
from ..kfda.folds import SPLITTERS as KNOWN_SPLITTERS
from ..utils.plain import as_call, is_record, recorded
from .fields import record

#: Options that no result depends on.
OF_THE_RUN = ("n_jobs", "verbose", "checkpoint")
#: Options that hold names of the user's alone.
_NAMES_ONLY = ("classes",)

#: Splitters by the names of their classes.
SPLITTERS = {
    name: vars(model_selection)[name]
    for name in KNOWN_SPLITTERS
    if name in model_selection.__all__
}
#: All that a file may name, by the names of the classes.
_CLASSES = SPLITTERS | {
    each.__name__: each
    for each in (
        *(kernels.Linear, kernels.RBF, kernels.Polynomial, kernels.EmpiricalMap),
        *(kernels.Nystrom, penalties.Ridge, penalties.Shrinkage),
        *(penalties.DegreesOfFreedom, penalties.Tuned),
    )
}


@record
class OptionsMixin:
    """A result that keeps the options of its call; comes before `Result` as a base.

    Parameters
    ----------
    options : dict of str -> object
        The options of the call, except data and options that do not affect results;
        empty if the result was not returned by a decoding function. A result file
        stores objects as class names and arguments. Ignored in comparisons of results.
        See `procedure`.
    inputs : dict of str -> str, list of str, or dict of str -> array
        The ``"function"`` that returned the result, the input ``"files"`` by name and
        size, and the type, shape and SHA-256 of each array, such as ``"data"``, ``"y"``
        and ``"groups"``, by which :func:`~mvpa_kfda.verify` recognises different data,
        and of each trial of numbers its ``"projections"``, which tell by how much data
        differ.
        Ignored in comparisons of results.
    """

    options: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)

    def _content(self):
        """Map the names of the fields to their values, the options as records."""
        return super()._content() | {"options": recorded(self.options)}

    def __getstate__(self):
        """The fields for a pickle, which takes no functions of the user's."""
        return vars(self) | {"options": recorded(self.options)}

    @property
    def procedure(self) -> dict[str, Any]:
        """The options of the analysis, for repeating it on other data.

        ``decode_epochs(other, y, **result.procedure)`` is the same analysis of other
        epochs, and likewise for each function; ``{**result.procedure, "reg": 0.1}``
        changes one option. All options are included, with their given or default
        values; `random_state` is the seed that was drawn. Data are not included:
        labels, groups, confounds and `train_on` (unless they are column names or
        queries), test data, masks, meshes and source spaces. Pass these for the other
        data. If groups were passed as an array and left out one at a time, `cv`
        requires groups again. `n_jobs`, `verbose` and `checkpoint` are not included
        either, since results do not depend on them.

        Raises
        ------
        ValueError
            If the result was not returned by a decoding function. If it was loaded from
            a file, or unpickled, and some of the options cannot be stored in files:
            functions, matrices, images, lists of folds, splitters from outside
            scikit-learn, and steps passed as objects.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import cross_validate
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 5))
        >>> y = rng.permutation(["cat", "dog"] * 20)
        >>> result = cross_validate(X, y, reg=0.1, n_permutations=99)
        >>> again = cross_validate(X, y, **result.procedure)
        >>> again == result
        True
        """
        if not self.options:
            raise ValueError(
                "This result was not returned by a decoding function but made of "
                "another one, so that no options can be passed on. Take those of the "
                "result it was made of."
            )
        options = revived(
            {k: v for k, v in self.options.items() if k not in OF_THE_RUN}
        )
        # Groups that were given as an array may have been left out.
        named = self.options.get("groups") is not None
        if options.get("cv", self) is None and self.groups is not None and not named:
            if self.parameters["cv"]:
                options["cv"] = model_selection.LeaveOneGroupOut()
        return options


def revived(options):
    """Return options with objects in the place of what a file holds of them.

    A ValueError names the options that a file does not hold.
    """
    found, lost = {}, []
    for name, value in options.items():
        try:
            found[name] = value if name in _NAMES_ONLY else _revived(value)
        except _LostError as error:
            lost.append(f"{name} ({error})")
    if lost:
        kept = "it does" if len(lost) == 1 else "they do"
        raise ValueError(
            f"The procedure cannot be passed on, since {kept} not come back from a "
            f"result file: {', '.join(lost)}. Write the call anew; result.options has "
            "all of its options, as names and arguments."
        )
    return found


class _LostError(ValueError):
    """What a record does not say; the text words what there was."""


def _revived(value):
    """What was recorded."""
    if isinstance(value, Iterator):
        raise _LostError("an iterator, which is used up")
    if is_record(value):
        given = {name: _revived(each) for name, each in value.items() if name != "name"}
        try:
            return _CLASSES[value["name"]](**given)
        except (KeyError, TypeError, ValueError):  # of others, as of a matrix
            raise _LostError(as_call(value)) from None
    if isinstance(value, dict) and list(value) == ["function"]:
        raise _LostError(f"the function {value['function']}")
    return [_revived(each) for each in value] if type(value) is list else value
