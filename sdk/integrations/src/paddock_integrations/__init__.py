"""Paddock's sandboxes as the sandbox provider of agent frameworks: one module for each, imported by its name.

This module imports none of them, so that a program has only the framework that it asks for.
"""

__version__ = "0.1.0"
