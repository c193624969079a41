/* SPDX-License-Identifier: MIT */
/* dump.c: GenerateCoreDump, newest form first. The runtime starts its createdump and answers when that has ended; its
 * diagnostics server does nothing else meanwhile. An OK is no proof of a file: whoever asks looks. */
#include <stdlib.h>
#include <string.h>

#include "ipc/ipc_internal.h"

#define CRASH_REPORT 4u /* flag; GenerateCoreDump of 3.0 and 5.0 does not know it */

/* One line of what createdump says; it comes with line feeds inside and at the end. */
static void one_line(char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ') text[i] = ' ';
    while (n > 0 && text[n - 1] == ' ')
        text[--n] = '\0';
}

/* The runtime's refusal as an error: its own words, where it has any. */
static int refused(const ipc_answer *a, int version, err *e)
{
    cursor c = cursor_of(a->payload, IPC_HEADER_SIZE);
    char *text = NULL;
    (void)cursor_u32(&c);
    if (version == 3) (void)ipc__read_text(&c, &text); /* without memory there is no text */
    if (text) one_line(text);
    bool said = text && *text;
    bool cannot = a->hresult == IPC_E_NOT_SUPPORTED || (said && strstr(text, "support") != NULL);
    int rc = err_set(e, cannot ? ERR_NOT_SUPPORTED : ERR_IO, "the runtime wrote no dump: %s",
                     said     ? text
                     : cannot ? "it has no createdump"
                              : "its createdump failed and did not tell why");
    if (e) e->hresult = a->hresult;
    if (said && strstr(text, "full dump"))
        err_hint(e, "ask for dumpType Full");
    else if (!cannot)
        err_hint(
            e,
            "look at the target's standard error, and at the space and the rights of the folder; a container may need "
            "the capability SYS_PTRACE");
    free(text);
    return rc;
}

int ipc_dump(const ipc_endpoint *ep, const ipc_dump_cfg *cfg, int64_t deadline_ns, const ipc_cancel *c, int *version,
             err *e)
{
    ipc_msg m;
    ipc_msg_init(&m);
    ipc_answer a = {0};
    int rc = 0;
    for (int v = 3; v >= 1; v--) {
        err one = {0};
        ipc_answer_fini(&a);
        rc = ipc_msg_dump(&m, v, cfg->path, cfg->type, cfg->crash_report && v > 1 ? CRASH_REPORT : 0, &one);
        if (rc == 0) rc = ipc_call(ep, &m, deadline_ns, c, &a, NULL, &one);
        *version = v;
        if (rc < 0 && one.hresult == IPC_E_UNKNOWN_COMMAND && v > 1) continue;
        if (rc < 0 && one.hresult && one.hresult != IPC_E_UNKNOWN_COMMAND)
            rc = refused(&a, v, e);
        else if (rc < 0 && e && e->kind == ERR_NONE)
            *e = one;
        break;
    }
    if (rc == 0) { /* an OK with a code other than 0 is a failure */
        cursor p = cursor_of(a.payload, IPC_HEADER_SIZE);
        uint32_t hr = cursor_left(&p) >= 4 ? cursor_u32(&p) : 0;
        if (hr != 0) rc = ipc_hresult_err(e, m.command, hr);
    }
    ipc_answer_fini(&a);
    ipc_msg_fini(&m);
    return rc;
}
