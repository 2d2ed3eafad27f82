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

for benchmark in (
    calibration,
    estimation,
    confidence,
    registration,
    learned,
    extraction,
    networks,
    speed,
    readme_table,
):
    benchmark.main()
