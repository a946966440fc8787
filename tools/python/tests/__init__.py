# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
