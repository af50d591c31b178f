"""The parts of happens-before: what the host did, and vector clocks over it."""
