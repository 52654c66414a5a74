"""The numbers of src/arith/gelu.rs: erfcx(a/sqrt(2)) as t times a polynomial in t = 1/(1 + 0.3a).

Least squares on Chebyshev nodes, weighted so that the relative error is what is small.
Run: python gelu.py (numpy and scipy).
"""

import numpy as np
from scipy.special import erfcx

SLOPE, TERMS, FARTHEST = 0.3, 8, 14.0

nearest = 1 / (1 + SLOPE * FARTHEST)
t = nearest + (np.cos(np.pi * (np.arange(2000) + 0.5) / 2000) + 1) / 2 * (1 - nearest)
wanted = erfcx((1 / t - 1) / SLOPE / np.sqrt(2))
powers = np.vander(t, TERMS, increasing=True) * t[:, None]
terms, *_ = np.linalg.lstsq(powers / wanted[:, None], np.ones_like(wanted), rcond=None)
print("largest relative error:", np.abs(powers @ terms / wanted - 1).max())
for term in terms:
    print(f"{np.float32(term):.9g}")
