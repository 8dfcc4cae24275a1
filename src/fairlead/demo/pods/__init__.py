"""Pods run as processes of this machine: their environment, their files, and what they print.

Only what the demo and the tests need of a kubelet: a Deployment's pod template comes in, its
containers' commands run with the environment variables and Secret volumes that it names, and their
output and exit codes go out. Nothing is isolated.
"""
