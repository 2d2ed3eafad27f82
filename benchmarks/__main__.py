"""All benchmarks of the CPU, one after the other, and the README's table from them: ``python -m benchmarks``."""

from benchmarks import calibration, confidence, estimation, networks, readme_table, registration, speed

for benchmark in (calibration, estimation, confidence, registration, networks, speed, readme_table):
    benchmark.main()
