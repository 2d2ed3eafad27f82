"""The search for poses of many pairs of maps at once: one module a stage, each the batched form of one beside it.

Lines are padded to one number with copies of a real line and masked, so that padding never changes a result. No module
has a loop over pairs.
"""
