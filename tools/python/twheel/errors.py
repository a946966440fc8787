# SPDX-License-Identifier: LGPL-2.1-or-later
"""What can go wrong, as exceptions.

All are OSErrors with their errno. What has no class here is what Python makes of
the errno: FileNotFoundError when there is no device, PermissionError, TimeoutError.
"""

import errno
import os


class TimeoutGone(OSError):
    """ENOENT: no such timeout, or its last event was read."""


class LimitReached(OSError):
    """EAGAIN: of the wheel, of the user, or of the device."""


class Stopped(OSError):
    """ESHUTDOWN: after stop() nothing can be armed."""


# For operations; of others each errno means what it means elsewhere.
_OPERATION: dict[int, type[OSError]] = {
    errno.ENOENT: TimeoutGone,
    errno.EAGAIN: LimitReached,
    errno.ESHUTDOWN: Stopped,
}


def check(result: int) -> int:
    """A result of the library, unless it is an error."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def operation_error(result: int) -> OSError | None:
    """What the result of an operation stands for, None if it is no error."""
    if result >= 0:
        return None
    return _OPERATION.get(-result, OSError)(-result, os.strerror(-result))


def check_operation(result: int) -> int:
    """The result of an operation, unless it is an error."""
    error = operation_error(result)
    if error:
        raise error
    return result
