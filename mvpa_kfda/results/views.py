"""The interactive view of what was tested over subjects, or between results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..inference.corrections import CorrectionName
from ..viz.interactive import view_map
from .fields import record

if TYPE_CHECKING:
    from ..viz.interactive import Colormap


@record
class ViewMixin:
    """A result with an interactive view; needs `geometry` and `_map_of`."""

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

        Click to move through a volume; drag to rotate a surface. The view is from
        Nilearn: it is displayed in notebooks, ``.open_in_browser()`` opens it, and
        ``.save_as_html("view.html")`` writes a self-contained page.

        Parameters
        ----------
        name : str or None
            The map to show, as in `to_img`; None: the scores.
        correction : str or None
            Correction of the p-values, as in `pvalues`.
        alpha : float or None
            Show only positions with p <= alpha; None shows all.
        min_score : float or None
            Show positions with at least this score, instead of p <= alpha.
        kind : {"stat_map", "surface"} or None
            "stat_map": slices through voxels. "surface": meshes. None takes what is
            available, and the surface for CIFTI files with meshes.
        hemi : {"left", "right", "both"}
            Hemispheres of a surface to show.
        cut_coords : sequence of float or None
            Initial position of the slices, (x, y, z) in mm. None cuts through the
            highest value shown, or the smallest p-value.
        bg_img : image or None
            Background image, as in `VolumeResult.plot`.
        vlim : tuple of float or None
            Limits of the colormap. None makes them symmetric about chance, or about
            zero for z-values and differences; for p-values they are 0 and 1, or 0 and
            `alpha`.
        cmap : str, matplotlib Colormap, or None
            The colormap. None takes that of `plot`.
        **options
            Further options of `pvalues`, for a map of p-values: `hypothesis` for a
            prevalence test.

        Returns
        -------
        view : nilearn.plotting.html_stat_map.StatMapView or SurfaceView
            The view.

        Raises
        ------
        ValueError
            As in `to_img`, and if an argument is not valid or positions have no brain
            coordinates.
        ImportError
            For a surface, if plotly is not installed, which Nilearn 0.14 and later
            require.
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
