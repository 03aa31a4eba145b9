"""The suite: every acquirer on the same data, budgets and training, to decide on changes and to report results.

``jobs`` says what is run, ``run`` runs it, ``records`` keeps what came out, ``summary`` and ``targets`` read the records.
"""
