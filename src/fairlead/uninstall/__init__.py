"""Taking a program away again: what still needs it, in which order it goes, what stays.

The input is one of the programs of ``fairlead manifests`` and a cluster. ``footprints`` knows by
these manifests what belongs to it, ``duties`` what it has to have done before it goes: bindings,
consumers, roles, projections, sessions. ``work`` looks at all of it (:func:`.work.survey`), and
takes it away in order (:func:`.work.uninstall`). What goes out: a :class:`.findings.Survey` for a
person to agree to, and lines that tell of each step.

Every step looks at what is there and takes away what it finds, so that doing it again finishes
what was interrupted. What has waited since a program was deleted in the wrong order is found by
its finalizers, and let go only where a person says so.
"""
