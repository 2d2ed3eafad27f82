"""From two line maps and matches of which many are wrong to a pose, its covariance and whether to believe it."""
