/* SPDX-License-Identifier: MIT */
/* causality.c: the tree with what one logical operation did put together across its awaits. */
#include "profile/profile_internal.h"

profile *profile_causality(const profile *p, err *e)
{
    (void)p;
    (void)err_set(e, ERR_NOT_SUPPORTED, "this profile was taken without what joins the parts of an operation");
    return NULL;
}
