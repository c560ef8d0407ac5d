"""The interactive view of what was tested over subjects, or between results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..inference.corrections import CorrectionName
from ..viz.interactive import view_map
from .kinds import record

if TYPE_CHECKING:
    from ..viz.interactive import Colormap


@record
class ViewMixin:
    """A result with a view; it has a `geometry` and `_map_of` a name."""

    def view(
        self,
        name: str | None = None,
        *,
        correction: CorrectionName | None = None,
        alpha: float | None = None,
        min_score: float | None = None,
        kind: Literal["stat_map", "surface"] | None = None,
        hemi: Literal["left", "right", "both"] = "both",
        cut_coords: Sequence[float] | None = None,
        bg_img: Any = None,
        vlim: tuple[float, float] | None = None,
        cmap: str | Colormap | None = None,
        **options: Any,
    ) -> Any:
        """View a map in the brain interactively.

        In a volume, a click moves the slices; a surface can be turned. The view is one
        of nilearn's: it shows itself in a notebook, ``.open_in_browser()`` opens it,
        and ``.save_as_html("view.html")`` writes a page that needs no network.

        Parameters
        ----------
        name : str or None
            What is shown, as in `to_img`; None: the scores.
        correction : str or None
            Correction of the p-values, as in `pvalues`.
        alpha : float or None
            Show positions with p <= alpha only; None shows all of them.
        min_score : float or None
            Show positions that score at least as much, in place of p <= alpha.
        kind : {"stat_map", "surface"} or None
            "stat_map": slices through voxels. "surface": meshes. None takes what there
            is, and of CIFTI files with meshes the surface.
        hemi : {"left", "right", "both"}
            Which hemispheres of a surface.
        cut_coords : sequence of float or None
            Where slices are cut at first, (x, y, z) in mm. None cuts through the
            highest value that is shown, of p-values the smallest.
        bg_img : image or None
            What is behind the map, as in `VolumeResult.plot`.
        vlim : tuple of float or None
            Values at the two ends of the colors. None makes them symmetric about
            chance, or of z-values and differences about zero; p-values have colors
            from 0 to 1, or to `alpha`.
        cmap : str, matplotlib Colormap, or None
            The colors. None takes those of `plot`.
        **options
            What else `pvalues` takes, for a map of p-values: of a prevalence test its
            `hypothesis`.

        Returns
        -------
        view : nilearn.plotting.html_stat_map.StatMapView or SurfaceView
            The view.

        Raises
        ------
        ValueError
            As `to_img`, and if an argument is not valid or positions have no place in
            a brain.
        ImportError
            Of a surface, if plotly is not installed, which nilearn 0.14 and later
            draws it with.
        """
        if self.geometry is None:
            raise ValueError(
                f"There is no view of {self.places.describe()}. Views are for results "
                "of searchlights and regions; use plot()."
            )
        name, values = self._map_of(name, correction, options)
        tested = {"correction": self.correction_name(correction), "alpha": alpha}
        look = {"kind": kind, "hemi": hemi, "cut_coords": cut_coords}
        look |= {"bg_img": bg_img, "vlim": vlim, "cmap": cmap, "min_score": min_score}
        return view_map(self, name, values, metric=self.metric, **tested, **look)
