/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_MINMAX_H
#define _LINUX_MINMAX_H

#define min(a, b)		({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b)		({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(type, a, b)	({ type _l = (a), _r = (b); _l < _r ? _l : _r; })
#define max_t(type, a, b)	({ type _l = (a), _r = (b); _l > _r ? _l : _r; })

#endif /* _LINUX_MINMAX_H */
