"""The functions of templates: ``builtins`` lists them, ``calls`` defines their type.

``verbs`` is ``printf``, over ``fields``.
"""
