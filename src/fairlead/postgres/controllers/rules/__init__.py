"""What is decided about objects in the cluster, without asking anybody.

``resolution`` finds the server that an access names, ``policy`` says what is allowed there,
``wishes`` what the access asks for; ``login_secret`` composes the generated Secret, and
``rotation`` says when its password is due.
"""
