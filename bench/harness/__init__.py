"""The driver of the benchmarks; `bench/run --help` says how it is called."""
