"""All benchmarks of the CPU, one after the other, and the README's table from them: ``python -m benchmarks``."""

from benchmarks import (
    calibration,
    confidence,
    estimation,
    extraction,
    learned,
    networks,
    readme_table,
    registration,
    speed,
)

EVERY = (calibration, estimation, confidence, registration, learned, extraction, networks, speed, readme_table)

for benchmark in EVERY:
    benchmark.main()
