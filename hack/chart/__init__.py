"""The chart's generated files, made of what ``fairlead manifests`` prints.

What comes in: the manifests functions of the programs, called with placeholders, and the table of
values. ``templating`` joins what two calls print into one tree with conditions and loops, and
writes it as a template; ``programs`` does that for each program; ``uninstalling`` makes the hook
that runs before a release goes; ``values`` has the table of which values.yaml, its schema and the
page of the docs are made. What goes out: the files of :func:`hack.chart.files.files`, which
``python -m hack.chart`` writes and a test compares with those that are there.
"""
