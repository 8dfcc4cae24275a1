"""One explanation for the whole chain, joined from the links of each system.

Workload < binding < Secret < service < the provider's object < role. The four systems do not
depend on one another; this package depends on all of them, and only reads.
"""
