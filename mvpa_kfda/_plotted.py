"""What several kinds of results have in common when they are drawn."""

from . import group_plots, plots, tuning_plots


class OnePosition:
    """A result on one set of features."""

    def plot(self, *, metric=None, ax=None, show=False):
        """Plot the score on the histogram of the permutations.

        Parameters
        ----------
        metric : str or None
            Name of the metric; None takes the first.
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        show : bool
            Show the figure at once.

        Returns
        -------
        ax : matplotlib Axes
        """
        return plots.plot_null(self, metric=metric, ax=ax, show=show)

    def plot_tuning(self, *, ax=None, show=False):
        """Plot what the penalty was chosen by, over the grid of penalties.

        One line per kernel, the mean over folds, with the folds as thin lines and the
        chosen penalties marked.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        show : bool
            Show the figure at once.

        Returns
        -------
        ax : matplotlib Axes

        Raises
        ------
        ValueError
            If the penalty was not tuned.
        """
        return tuning_plots.plot_tuning(self, ax=ax, show=show)


class OverTime:
    """A result at every time point."""

    def plot(self, *, metric=None, correction="max", alpha=0.05, ax=None, show=False):
        """Plot the score over time.

        Parameters
        ----------
        metric : str or None
            Name of the metric; None takes the first.
        correction : str
            Correction of the p-values for testing many time points.
        alpha : float
            Time points with p <= alpha are marked.
        ax : matplotlib Axes or None
            Where to draw, best in a figure with ``layout="constrained"``; None makes a
            figure.
        show : bool
            Show the figure at once.

        Returns
        -------
        ax : matplotlib Axes
        """
        return plots.plot_time(
            self, metric=metric, correction=correction, alpha=alpha, ax=ax, show=show
        )

    def plot_tuning(self, *, ax=None, show=False):
        """Plot the degrees of freedom over time, which the penalty leaves the model.

        The mean over folds, with the folds as thin lines where the penalty was tuned.
        For what it was chosen by, cross-validate at one time.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        show : bool
            Show the figure at once.

        Returns
        -------
        ax : matplotlib Axes
        """
        return tuning_plots.plot_flexibility(self, ax=ax, show=show)


class OfTest:
    """A map that was tested: of a group, or of a comparison."""

    def plot(self, **options):
        """Plot the scores and what is significant, see `plot_group`.

        Parameters
        ----------
        **options
            Those of :func:`mvpa_kfda.group_plots.plot_group`, such as `metric`,
            `correction`, `alpha` and `show`.

        Returns
        -------
        drawn : matplotlib Axes or Figure
        """
        return group_plots.plot_group(self, **options)

    def plot_null(self, *, ax=None, show=False, alpha=None):
        """Plot the observed maximum on the histogram of the permutations' maxima.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        show : bool
            Show the figure at once.
        alpha : float or None
            The level of the dashed line; None takes `alpha`.

        Returns
        -------
        ax : matplotlib Axes

        Raises
        ------
        ValueError
            If the test needed no permutations, or if `alpha` is not between 0 and 1.
        """
        return group_plots.plot_null_max(self, ax=ax, show=show, alpha=alpha)
