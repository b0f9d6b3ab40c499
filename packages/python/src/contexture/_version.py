"""The version of this package, which is that of the command and the server."""

__version__ = VERSION = "0.2.0"
