"""The test cases, one module a topic. `run.py` runs them."""
