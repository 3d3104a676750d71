"""Benchmark and reproduction suite for zeroth-order on-device training."""

__version__ = "0.1.0"
