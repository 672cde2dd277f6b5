"""The one pass over tokens: Arrow batches in, one row of sums per response out.

Lowest first: ``arrays`` (NumPy or torch, one set of operations), ``chunk`` (the tokens of some responses and
what is shared between sums), ``factors`` (what an objective does to a token, without its coefficients),
``factor_values`` (those on a chunk), ``sums`` and ``factor_facts`` (the facts), ``part`` (a file of a run).
"""
