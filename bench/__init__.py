"""How fast the audit is, measured: ``make bench`` writes docs/benchmarks.md."""
