"""The functions of templates: ``builtins`` lists them, ``calls`` says what one is.

``printing`` and ``verbs`` are ``print`` and ``printf``, over ``fields``; ``comparing`` is ``eq``.
"""
