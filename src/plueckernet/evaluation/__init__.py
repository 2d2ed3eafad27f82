"""Experiments: predictions that are kept, metrics computed from them, one module for each table or figure."""
