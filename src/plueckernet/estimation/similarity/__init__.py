"""Registration of maps of different units: the scale from votes, the rigid search, then pose and scale together."""
