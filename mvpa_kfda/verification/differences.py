"""What of a result differs before any model is refitted, in words."""

from functools import cached_property

import numpy as np

from ..utils.fingerprints import PROJECTIONS
from .distance import distance, rounding, spread
from .kernels import sees_offsets
from .scoring import PAIRS, score

#: What is said of inputs by their names.
_INPUTS = {
    "data": "the data",
    "data_test": "the test data",
    "y": "the labels",
    "y_test": "the test labels",
    "groups": "the groups",
    "confounds": "the confounds",
    "confounds_test": "the confounds of the test data",
    "train_on": "the trials of train_on",
}
#: So many permutations are drawn in a second or two.
_FEW_PERMUTATIONS = 10**5
#: Inputs that differ by a larger part of their standard deviation are other ones: what
#: single precision, or 16 bits, leave of them differs by less. More would make so many
#: predictions ties that edited ones hide among them.
_MOST_APART = 1e-4


def differences_of_counts(result):
    """Return which counts a result states that it has no scores for, in words.

    They say how much is drawn and refitted, so that they are looked at before.
    """
    held = {np.shape(scores)[-1] for scores in result.repeats.values()} or {1}
    stated = [each.get("n_repeats", 1) for each in (result.parameters, result.options)]
    return [
        f"{said} repeats are asked for, and the file has scores of {max(held)}"
        for said in dict.fromkeys(map(repr, stated))
        if {said} != {*map(repr, held)}
    ]


def most_permutations(result):
    """Return how many permutations are drawn for a result, whatever it asks for.

    There may be fewer than asked for, and a rule of the folds may leave few of these;
    but a file may ask for any number.
    """
    return max(_FEW_PERMUTATIONS, 100 * (result.n_permutations + 1))


class DifferencesMixin:
    """Claims that are compared with what the data and the options make."""

    def differences(self):
        """Return what differs before anything is refitted, in words."""
        found = self._differences_of_inputs()
        return found or [
            *self._differences_of_trials(),
            *self._differences_of_folds(),
            *self._differences_of_draws(),
        ]

    def _differences_of_inputs(self):
        """Return which inputs are other ones than those that are recorded."""
        noted, found = self.reading.prints, []
        for name, words in _INPUTS.items():
            said, seen = self.result.inputs.get(name), noted.get(name)
            if said == seen:
                continue
            if seen is None:
                found.append(f"{words} are not given, and were when it was made")
            elif said is None:
                found.append(f"{words} are given, and were not when it was made")
            elif said[1] != seen[1]:
                found.append(f"{words} are {seen[1]}, and {said[1]} are recorded")
            elif said[3] == seen[3]:
                found.append(f"{words} are in another order than those recorded")
            else:
                found += self._word_if_apart(name, words)
        return found

    @property
    def inputs_apart(self):
        """Which inputs are others after all, if what is refitted does not fit."""
        return [
            f"{_INPUTS[name]} are other ones than those recorded" for name in self.apart
        ]

    def _word_if_apart(self, name, words):
        """Say of an input that it is another one, unless it may be so by rounding only.

        Refitting tells whether it is, if models are moved by as much.
        """
        values = self.reading.noted[name]
        if name == "y" and self.is_regression:
            values = values.astype(float)
            apart = self._take_targets_of_file(values)
        elif values.dtype.kind in "biuf" and values.ndim > 1:
            known = self.result.inputs.get(PROJECTIONS, {})
            apart = distance(values, known.get(name))
        else:
            return [f"{words} are other ones than those recorded"]
        if apart is None:  # of an earlier version
            self.apart[name] = rounding(values, np.float32)
            self.unverified.append(
                f"{words} are not those recorded, and the result does not say by how "
                "much they differ"
            )
            return []
        size = f"about {apart:.1g} of their standard deviation"
        if not apart <= _MOST_APART:
            return [f"{words} are other ones than those recorded, and differ by {size}"]
        self.apart[name] = apart
        single = np.array_equal(values, values.astype(np.float32))
        self.notes.append(
            f"{words[0].upper()}{words[1:]} differ from those recorded by {size}"
            f"{', as after saving in single precision' if single else ''}."
        )
        return []

    def _take_targets_of_file(self, values):
        """Return how far values to be predicted are from those in the file; take these.

        The tables of programs have some digits only.
        """
        of_file = np.asarray(self.result.y, float)
        if of_file.shape != values.shape:
            return np.inf
        self.reading.y = of_file
        return float(np.sqrt(np.mean((values - of_file) ** 2)) / spread(values))

    @cached_property
    def noise(self):
        """By how much of their deviation features may differ from those decoded.

        For rounding alone, that of values far from 0 where it bears on anything.
        """
        noted = self.reading.noted
        own = max(
            rounding(noted[n], float) for n in ("data", "data_test") if n in noted
        )
        counts = own > (1e-14 if any(map(sees_offsets, self._kernels)) else 1e-10)
        return max([own * counts, *(v for k, v in self.apart.items() if k != "y")])

    def _differences_of_trials(self):
        """Compare what the file says of trials with what was given."""
        result = self.result
        if self.method.n_classes is None:
            if not np.allclose(result.y, self.classes[self.codes], rtol=1e-12):
                yield "the values to be predicted are other ones in the file"
            return
        names = [list(map(str, each)) for each in (result.classes, self.classes)]
        if names[0] != names[1]:
            yield (
                f"the classes are {', '.join(names[1])}, and the file calls them "
                f"{', '.join(names[0])}"
            )
        elif not np.array_equal(result.y, self._codes_of_file()):
            yield "the file has other labels of the trials"
        if result.members is not None:
            yield from self._differences_of_averages()

    def _codes_of_file(self):
        """Return the classes of the samples of all repeats."""
        rounds = [self.round(0, repeat) for repeat in range(self.n_repeats)]
        return np.concatenate([self.of_tested(self.codes, each) for each in rounds])

    def _differences_of_averages(self):
        """Check who is averaged with whom."""
        members, (_, codes) = self.result.members, self.single
        if self.regroups:
            rounds = [self.round(0, repeat) for repeat in range(self.n_repeats)]
            drawn = np.concatenate([each.members for each in rounds])
            if not np.array_equal(drawn, members):
                yield "averages are made of other trials than the seed says"
            return
        if len(np.unique(members)) < members.size:
            yield "a trial is in two averages"
        if (codes[members] != codes[members[:, :1]]).any():
            yield "averages are made of trials of several classes"
        folds = self.listed
        for train, test in folds:
            if np.intersect1d(members[train], members[test]).size:
                yield "averages that are tested hold trials that are trained with"

    def _differences_of_folds(self):
        """Compare the folds of the file with those that the options stand for."""
        if self.drawn_folds is None:
            return
        listed, drawn = self.listed, self.folds
        if len(listed) != len(drawn):
            yield f"the file has {len(listed)} folds, and the options make {len(drawn)}"
            return
        for number, (one, two) in enumerate(zip(listed, drawn, strict=True)):
            if any(
                not np.array_equal(np.sort(a), np.sort(b))
                for a, b in zip(one, two, strict=True)
            ):
                yield f"fold {number} holds other trials than the options say"
                return
        for train, test in listed:
            if np.intersect1d(train, test).size:
                yield "a fold is tested on trials that it is trained with"
                return

    def _differences_of_draws(self):
        """Compare the number of permutations with that which the options make."""
        sizes = {name: len(null) for name, null in self.result.nulls.items()}
        for name, _, summary in self.summaries:
            sizes[name] = len(summary["maximum"])
        if self.result.parameters["n_permutations"] and not sizes:
            yield "the file has no scores under permuted labels"
        for name, size in sizes.items():
            n_drawn = len(self.labels) - 1
            if size != n_drawn:
                more = " or more" if n_drawn == most_permutations(self.result) else ""
                yield (
                    f"the file has {size} scores under permuted labels ({name}), "
                    f"and the options make {n_drawn}{more}"
                )
                return

    def differences_of_scores(self):
        """Work out scores again from the predictions in the file, at all positions."""
        if self.method.n_classes is None:
            return
        yield from self._differences_of_tables()
        if not self.tested_once:
            return
        predicted = np.asarray(self.result.predicted)
        n_classes = self.method.n_classes
        for name in self.metrics:
            if name == "roc_auc" or name in (*PAIRS, *self.chosen_pairs):
                continue  # scores of classes are not in the file
            stored = np.asarray(self.result.metrics[name])
            for position in map(tuple, np.argwhere(self.is_decoded)):
                again = np.mean(
                    [
                        score(
                            name,
                            self._sets(predicted[position], repeat),
                            n_classes,
                            self.chosen_pairs,
                        )
                        for repeat in range(self.n_repeats)
                    ]
                )
                if not self.agrees(stored[position], again):
                    yield (
                        f"{name} is {stored[position]:.4g} at position "
                        f"{', '.join(map(str, position)) or 0}, and {again:.4g} by the "
                        "predictions in the file"
                    )
                    return

    def _differences_of_tables(self):
        """Count the predictions in the file again, at all positions."""
        if "confusion_matrix" not in self.result.metrics:
            return
        stored = np.asarray(self.result.metrics["confusion_matrix"])
        if not self.tested_once:
            self.unverified.append("a trial is tested twice, which counts are made of")
            return
        for position in map(tuple, np.argwhere(self.is_decoded)):
            again = np.zeros((self.method.n_classes,) * 2)
            predicted = np.asarray(self.result.predicted)[position]
            for repeat in range(self.n_repeats):
                for true, said, _, _ in self._sets(predicted, repeat):
                    np.add.at(again, (true, said), 1)
            if not np.array_equal(stored[position], again):
                where = ", ".join(map(str, position)) or 0
                yield f"the confusion matrix at position {where} has other counts"
                return

    def _sets(self, predicted, repeat):
        """Return what the file predicts of the test sets of one repeat."""
        made, k = self.round(0, repeat), self.n_folds
        true = self.of_tested(self.true(0), made)
        of_file = self.folds[repeat * k : (repeat + 1) * k]
        return [
            (true[test], predicted[rows], None, 0)
            for (_, test), (_, rows) in zip(made.pairs, of_file, strict=True)
        ]
