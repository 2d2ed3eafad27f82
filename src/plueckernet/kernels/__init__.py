"""Compiled kernels of the steps that are many small operations; without them NumPy and PyTorch compute the same.

Every function of C takes pointers to contiguous arrays and their sizes, allocates nothing that outlives the call and
draws no random numbers. What it computes is defined by the Python beside which it is used, and tested against it.
"""
