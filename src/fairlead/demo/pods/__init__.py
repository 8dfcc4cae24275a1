"""Pods as processes of this machine: their environment, their files, and their output.

This is the part of a kubelet that the demo and the tests need: it takes a Deployment's pod
template, runs its containers' commands with the environment variables and Secret volumes that it
names, and returns their output and exit codes. Nothing is isolated.
"""
