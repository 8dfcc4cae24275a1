"""Objects in memory and the log behind them.

Every change is a row of the ``log``, which is an SQLite database in a file or in memory; its row
id is the resourceVersion. The ``store`` keeps the current ``records``, gives each change its
version, and publishes it to watches and controllers once it is on disk. ``compaction`` deletes old
history, so that requests for old versions are answered with 410.
"""
