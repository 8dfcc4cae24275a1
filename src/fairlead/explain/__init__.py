"""Explanation of the whole chain, joined from the links of each system.

The chain is workload, binding, Secret, service, provider's object, role. The four systems do not
import one another; this package imports all of them, and only reads from clusters and servers.
"""
