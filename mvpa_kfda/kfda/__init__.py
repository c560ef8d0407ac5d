"""The method: kernels, penalties, folds, and the direct step."""
