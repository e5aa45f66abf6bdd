# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sliding windows over arrays, for pools and convolutions."""

import numpy as np

from graph import Skip
from layers import window


def patches(image, kernel, strides, dilations, pads, fill):
    """Windows of [n, c, ...]: [n, c, positions..., offsets...]."""
    rank = len(kernel)
    sides = [(0, 0), (0, 0)] + [(pads[i], pads[i + rank]) for i in range(rank)]
    padded = np.pad(image, sides, constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(2, 2 + rank)))
    steps = [slice(None, None, s) for s in strides]
    inside = [slice(None, None, d) for d in dilations]
    return seen[(slice(None), slice(None), *steps, *inside)]


def maxima(g, image):
    """(results, attributes) of a MaxPool of [n, c, h, w] without ceil_mode."""
    _, attributes = window(g, image.shape[2:], "")
    attributes.pop("auto_pad", None)
    attributes.pop("ceil_mode", None)
    kernel, ones = attributes["kernel_shape"], [1] * 2
    strides, pads = attributes.get("strides", ones), attributes.get("pads", [0] * 4)
    if any(e + pads[i] + pads[i + 2] < kernel[i] for i, e in enumerate(image.shape[2:])):
        raise Skip
    seen = patches(image, kernel, strides, ones, pads, np.iinfo(np.int64).min)
    return seen.max(tuple(range(4, seen.ndim))), attributes
