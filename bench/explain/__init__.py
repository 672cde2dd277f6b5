"""How often ``rlaudit explain`` names the right cause, on pairs of runs with one injected cause.

``python -m bench.explain`` (``make bench-explain``) writes docs/explain-benchmark.md. The benchmark judges
the tool from outside: it reads verdicts, and no rule of the tool is known here.

- :mod:`.case` what is injected, and what of it a log can show; :mod:`.log` a run in memory;
- :mod:`.toy` runs of the toy language, :mod:`.toy_cases` the causes injected into them;
- :mod:`.trl_runs` runs of TRL, :mod:`.trl_cases` the causes injected into those;
- :mod:`.edits` causes that are injected into a written log;
- :mod:`.judge` one verdict against the truth, :mod:`.tables` many of them, :mod:`.page` the page.
"""
