"""From regression scores to classes: the scoring rule and the discriminant axes.

A fold's model is summed up by the training cross-product A and the class counts, see
:mod:`mvpa_kfda.direct`; nothing here knows where they come from. Arrays end with one
axis for folds and one for label vectors, written (k, B).
"""

import numpy as np
from scipy.linalg import eigh, helmert


def contrasts(n_classes):
    """Return Q (c, c - 1): orthonormal columns that sum to zero."""
    return helmert(n_classes).T


def class_rule(A, counts, Q):
    """Return the weights W (q, c, k, B) and offsets b (c, k, B) of the class scores."""
    dtype = A.dtype
    n_train = counts.sum(axis=0)  # (k, B)
    mean = np.einsum("cq,ckb->qkb", Q, counts) / n_train
    missing = counts == 0
    if missing.any():
        # q_k of an absent class is a null direction of A and orthogonal to every
        # other d_j: filling it makes A invertible and changes no other score.
        A = A + np.einsum("ckb,ci,cj->ijkb", missing.astype(dtype), Q, Q)
    D = Q.T[:, :, None, None] - mean[:, None]  # (q, c, k, B)
    W = _solve(A.copy(), D.copy())
    spread = np.where(missing, 0, (D * W).sum(axis=0))  # (c, k, B)
    with np.errstate(divide="ignore"):
        shrink = np.where(missing, 0, 1 / counts - 1 / n_train)
    b = 0.5 * (shrink - spread) - (mean[:, None] * W).sum(axis=0)
    # A head start, far below the scores but above their rounding, settles near ties.
    eps = np.finfo(dtype).eps
    start = eps**0.75 * np.abs(spread - shrink).max(axis=0)
    start += 64 * eps * spread.max(axis=0)
    b -= np.arange(len(Q), dtype=dtype)[:, None, None] * start
    b[missing] = -np.inf
    if np.isnan(b).any():
        raise ValueError(
            "lambda is too small: the training trials of some fold are fitted exactly. "
            "Use a larger reg."
        )
    return W, b


def _solve(A, D):
    """Solve A X = D for A (q, q, ...) positive definite, D (q, c, ...).

    There is one matrix for every fold and permutation. While they are tiny, plain
    elimination over whole arrays is faster than one LAPACK call for each.
    """
    q = len(A)
    if q > 12:
        X = np.linalg.solve(*(np.moveaxis(x, (0, 1), (-2, -1)) for x in (A, D)))
        return np.ascontiguousarray(np.moveaxis(X, (-2, -1), (0, 1)))
    for j in range(q):
        for i in range(j + 1, q):
            factor = A[i, j] / A[j, j]
            A[i, j + 1 :] -= factor * A[j, j + 1 :]
            D[i] -= factor * D[j]
    for j in reversed(range(q)):
        for i in range(j + 1, q):
            D[j] -= A[j, i] * D[i]
        D[j] /= A[j, j]
    return D


def best_classes(fitted, W, b, scores):
    """Return the best class (k, m, B) and write all class scores into `scores`."""
    k, m, q, n_labels = fitted.shape
    best = np.zeros((k, m, n_labels), np.int8 if len(b) < 128 else np.int16)
    term = np.empty((k, m, n_labels), fitted.dtype)
    top = None
    for c in range(len(b)):
        score = fitted[:, :, 0] * W[0, c][:, None]
        for i in range(1, q):
            np.multiply(fitted[:, :, i], W[i, c][:, None], out=term)
            score += term
        score += b[c][:, None]
        if scores is not None:
            scores[:, c] = score.reshape(-1, n_labels)
        if top is None:
            top = score
        else:
            np.copyto(best, c, where=score > top)
            np.maximum(top, score, out=top)
    return best


def discriminant_axes(A, counts, Q):
    """Return Theta D of one fold (q, q): rotation and scaling to discriminants."""
    total = counts.sum()
    mean = counts @ Q / total
    C = (Q.T * counts) @ Q - total * np.outer(mean, mean)
    fill = (Q.T * (counts == 0)) @ Q  # the null directions of C and A, see class_rule
    alpha2, axes = eigh((C - A + (C - A).T) / 2, C + fill)
    alpha2, axes = alpha2[::-1], axes[:, ::-1]
    # eigh scales axes' C axes = I; W'(S_w + lambda I) W = I needs this on top.
    useful = alpha2 > 1e-12
    scale = np.zeros(len(alpha2))
    scale[useful] = 1 / np.sqrt(alpha2[useful] * (1 - alpha2[useful]))
    return axes * scale
