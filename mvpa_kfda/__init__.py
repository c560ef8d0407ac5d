"""Exact cross-validation and label permutations for neuroimaging decoding.

One matrix inverse per time point or searchlight gives every fold's out-of-sample
prediction of a kernel Fisher discriminant analysis, and every label permutation's.
"""

import lazy_loader as _lazy

__version__ = "0.1.0.dev0"

# Lazy, so that a numeric module can be imported without loading MNE or matplotlib.
__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    submod_attrs={
        "array_generalization": ["generalize_arrays"],
        "arrays": ["cross_validate", "decode_arrays"],
        "empirical_map": ["EmpiricalMap"],
        "epochs": ["decode_epochs"],
        "epochs_results": ["SensorTimeResult", "TimeFrequencyResult", "TimeResult"],
        "estimator": ["KernelFDA"],
        "comparison": ["compare"],
        "comparison_results": ["ComparisonResult"],
        "generalize": ["generalize_epochs"],
        "group": ["group_inference"],
        "group_results": ["GroupResult"],
        "kernels": ["RBF", "Linear", "Polynomial"],
        "latency": ["bootstrap_latency"],
        "lowrank": ["Nystrom"],
        "map_results": ["GeneralizationResult"],
        "penalties": ["DegreesOfFreedom", "Ridge", "Shrinkage", "Tuned"],
        "regression": ["regress"],
        "regression_results": ["RegressionResult", "TimeRegressionResult"],
        "roc": ["Roc"],
        "results": ["DecodingResult", "load_result"],
        "smoothness": ["GraphSmooth", "Penalty"],
        "simulate": ["simulate_epochs"],
        "volume_results": ["VolumeResult"],
        "volumes": ["decode_regions", "searchlight"],
    },
)
