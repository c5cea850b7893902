"""Simulated servers around the real cycle, and what stands behind them: storage and engines."""
