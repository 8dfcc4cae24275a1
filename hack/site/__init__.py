"""What the manual's site needs besides MkDocs: ``make docs``.

``hooks`` is MkDocs' way in, ``folders`` puts the pages of a folder into the navigation,
``repository`` brings in the files of the repository that pages link, ``diagrams`` gives a page
with a diagram the script that draws it, ``accessible`` names what the theme does not, and
``checks`` looks at what was built: ``python -m hack.site build/site``.
"""
