"""The errors a user can meet. Each message names what was given, what is accepted and what to do."""


class PrunerError(Exception):
    """Base of every error this package raises on purpose; the command line prints it and exits with 2."""


class ConfigError(PrunerError):
    """A setting, workload, target or work directory that cannot be used as given."""


class DeviceError(PrunerError):
    """A device description is unknown, incomplete or does not fit the target."""


class UntunableError(PrunerError):
    """The task has no schedule to choose: its design space is empty or its shapes are symbolic."""


class RejectedError(PrunerError):
    """TVM's schedule primitives or post-processors refuse a candidate."""


class CompileError(PrunerError):
    """A scheduled program that TVM's code generator or nvcc cannot compile."""
