"""The functions of templates: ``builtins`` lists them, ``calls`` defines their type.

``printing`` and ``verbs`` are ``print`` and ``printf``, over ``fields``; ``comparing`` is ``eq``.
"""
