"""Made-up jobs: a mix to look at (`seed`), and load to measure with (`loadtest`)."""
