"""Engines that map the parts of a run to facts: this machine's cores, or a Ray cluster."""
