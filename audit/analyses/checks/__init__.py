"""What went wrong in a run, from what it logged: one check a file, all of them listed in ``registry``.

Lowest first: ``token_batch`` (some responses' tokens), ``look`` (what a check may look at), the checks, and
``registry``, which runs them. Those of the log itself (types, nulls, keys) are in :mod:`audit.logs`.
"""
