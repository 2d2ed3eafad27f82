"""A Ray cluster of two CPUs on this machine: prints its address and ends when its standard input does."""

import sys

import ray

if __name__ == "__main__":
    context = ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    print(context.address_info["gcs_address"], flush=True)  # noqa: T201
    sys.stdin.read()
    ray.shutdown()
