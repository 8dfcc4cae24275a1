"""One explanation for the whole chain: what each system tells of its links, joined.

Workload < binding < Secret < service < the provider's object < role. The four systems know
nothing of one another; this room knows of all of them, reads, and writes nothing.
"""
