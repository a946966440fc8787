# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exceptions for the errors of the device.

All are OSErrors with their errno. For other errors Python chooses the class by the errno:
FileNotFoundError when there is no device, PermissionError, TimeoutError.
"""

import errno
import os


class TimeoutGone(OSError):
    """ENOENT: no such timeout, or its last event was read."""


class LimitReached(OSError):
    """EAGAIN: the limit of the wheel, of the user or of the device is reached."""


class Stopped(OSError):
    """ESHUTDOWN: the wheel was stopped, and nothing can be armed."""


# These hold for operations. In other calls the errnos have their usual meaning.
_OPERATION: dict[int, type[OSError]] = {
    errno.ENOENT: TimeoutGone,
    errno.EAGAIN: LimitReached,
    errno.ESHUTDOWN: Stopped,
}


def check(result: int) -> int:
    """Return a result of the library. Raises an error for a negative errno."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def operation_error(result: int) -> OSError | None:
    """Return the error that the result of an operation stands for, or None."""
    if result >= 0:
        return None
    return _OPERATION.get(-result, OSError)(-result, os.strerror(-result))


def check_operation(result: int) -> int:
    """Return the result of an operation. Raises an error for a negative errno."""
    error = operation_error(result)
    if error:
        raise error
    return result
