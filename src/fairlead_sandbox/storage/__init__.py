"""Objects in memory and the log behind them.

Every change is a row of the ``log``, an SQLite file or memory, and its row id is the
resourceVersion. The ``store`` keeps the current ``records``, gives each change its version, and
publishes it to watches and controllers once it is on disk. ``compaction`` forgets old history, so
that old versions are answered with 410.
"""
