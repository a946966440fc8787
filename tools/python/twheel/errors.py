# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Exceptions for the errors of the device.

All are OSErrors with their errno. For other errors Python chooses the class by the errno:
FileNotFoundError when a device was asked for that is missing, PermissionError, TimeoutError.
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
_OPERATION: dict[int, tuple[type[OSError], str]] = {
    errno.ENOENT: (TimeoutGone, "no such timeout, or its last event was read"),
    errno.EAGAIN: (LimitReached, "the limit of timeouts is reached"),
    errno.ESHUTDOWN: (Stopped, "the wheel was stopped"),
}


def check(result: int) -> int:
    """Return a result of the library. Raises an error for a negative errno."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def open_error(result: int, path: str | None) -> OSError:
    """Return the error of an open, which says what to do."""
    text = os.strerror(-result)
    if result == -errno.EINVAL:
        return OSError(-result, "TWHEEL_BACKEND is neither 'kernel' nor 'process'")
    if result in (-errno.ENOENT, -errno.ENODEV, -errno.ENXIO):
        text += " ('modprobe twheel_dev' loads the module; a wheel in the process needs none)"
    elif result in (-errno.EACCES, -errno.EPERM):
        text += " (root and the group twheel have access; a wheel in the process needs none)"
    return OSError(-result, text, path or "/dev/twheel")


def operation_error(result: int) -> OSError:
    """Return the error that a negative result of an operation stands for."""
    kind, text = _OPERATION.get(-result) or (OSError, os.strerror(-result))
    return kind(-result, text)


def check_operation(result: int) -> int:
    """Return the result of an operation. Raises an error for a negative errno."""
    if result < 0:
        raise operation_error(result)
    return result
