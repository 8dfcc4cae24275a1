"""The bindings of consumers: list, page, topology, and the objects of a binding."""
