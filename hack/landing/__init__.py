"""A landing: which parts of the suite a change runs, and what has passed before.

    make landing                                  # what `.ci/run` does once it has its programs
    .venv/bin/python -m hack.landing --plan       # what it would run, and why
    make whole                                    # everything

`table.py` says what runs when, `contents.py` what a part depends on, `record.py` what has passed
on this machine, `running.py` runs the parts.
"""
