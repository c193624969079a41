/* SPDX-License-Identifier: MIT */
/* client.c: the quick commands: one request, one answer. */
#include <stdlib.h>

#include "ipc/ipc_internal.h"

void ipc__late_hint(const ipc_endpoint *ep, err *e)
{
    if (ep->stopped || ipc__proc_stopped(ep->pid))
        err_hint(e, "the process is stopped by a signal or a debugger: kill -CONT %d, or detach the debugger", ep->pid);
    else
        err_hint(
            e, "its diagnostics server is busy (a dump, a long rundown, a half-open client) or stuck in a callback of "
               "the application: try again, or restart the process");
}

int ipc_call(const ipc_endpoint *ep, const ipc_msg *m, int64_t deadline_ns, const ipc_cancel *c, ipc_answer *out,
             int *keep_fd, err *e)
{
    int fd = -1;
    if (keep_fd) *keep_fd = -1;
    int rc = ipc__connect(ep, deadline_ns, c, &fd, e);
    if (rc == 0) rc = ipc__send(fd, m, deadline_ns, c, e);
    bool sent = rc == 0;
    if (rc == 0) rc = ipc__recv_answer(fd, out, deadline_ns, c, e);
    bool unanswered = sent && (rc == -ERR_CANCELLED || rc == -ERR_TIMEOUT);
    if (rc == 0 && !out->ok) rc = ipc_hresult_err(e, m->command, out->hresult);
    if ((rc == 0 || unanswered) && keep_fd) {
        *keep_fd = fd;
        fd = -1;
    }
    ipc__close(&fd); /* at once, also after an Error: some runtimes never close it */
    if (rc == -ERR_TIMEOUT) ipc__late_hint(ep, e);
    if (rc < 0 && e && e->hresult)
        err_where(e, "process %d", ep->pid); /* the command is in the message */
    else if (rc < 0)
        err_where(e, "%s to process %d", ipc_command_name(m->command), ep->pid);
    return rc;
}

int ipc_process_info(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, ipc_info *out, err *e)
{
    static const ipc_command forms[] = {IPC_PROCESS_INFO3, IPC_PROCESS_INFO2, IPC_PROCESS_INFO};
    ipc_msg m;
    ipc_msg_init(&m);
    ipc_answer a = {0};
    int rc = 0;
    for (int i = 0; i < 3; i++) {
        err one = {0};
        rc = ipc_msg_plain(&m, forms[i], &one);
        if (rc == 0) rc = ipc_call(ep, &m, deadline_ns, c, &a, NULL, &one);
        if (rc == 0) rc = ipc_info_parse(a.payload, 3 - i, out, &one);
        if (rc == 0) break;
        if (one.hresult == IPC_E_UNKNOWN_COMMAND && i < 2) continue;
        if (e && e->kind == ERR_NONE) *e = one;
        break;
    }
    ipc_answer_fini(&a);
    ipc_msg_fini(&m);
    return rc;
}

static int read_environment(int fd, const ipc_answer *a, int64_t deadline_ns, const ipc_cancel *c, buf *out, err *e)
{
    cursor head = cursor_of(a->payload, IPC_HEADER_SIZE);
    uint32_t n = cursor_u32(&head);
    if (!cursor_ok(&head)) return err_set(e, ERR_PROTOCOL, "the answer to GetProcessEnvironment has no size");
    if (n > IPC_ENVIRONMENT_MAX)
        return err_set(e, ERR_LIMIT, "the environment has %u bytes, more than %zu", n, IPC_ENVIRONMENT_MAX);
    buf block;
    buf_init(&block, IPC_ENVIRONMENT_MAX);
    int rc = ipc__recv(fd, &block, n, deadline_ns, c, e);
    if (rc == 0) rc = ipc_environment_parse(buf_view(&block), out, e);
    buf_fini(&block);
    return rc;
}

int ipc_environment(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, buf *out, err *e)
{
    ipc_msg m;
    ipc_msg_init(&m);
    ipc_answer a = {0};
    int fd = -1;
    int rc = ipc_msg_plain(&m, IPC_ENVIRONMENT, e);
    if (rc == 0) rc = ipc_call(ep, &m, deadline_ns, c, &a, &fd, e);
    if (rc == 0) rc = read_environment(fd, &a, deadline_ns, c, out, e);
    ipc__close(&fd);
    ipc_answer_fini(&a);
    ipc_msg_fini(&m);
    return rc;
}

int ipc_resume(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, err *e)
{
    ipc_msg m;
    ipc_msg_init(&m);
    ipc_answer a = {0};
    int rc = ipc_msg_plain(&m, IPC_RESUME, e);
    if (rc == 0) rc = ipc_call(ep, &m, deadline_ns, c, &a, NULL, e);
    if (rc == 0) { /* an OK with a code other than 0 is a failure */
        cursor p = cursor_of(a.payload, IPC_HEADER_SIZE);
        uint32_t hr = cursor_left(&p) >= 4 ? cursor_u32(&p) : 0;
        if (hr != 0) rc = ipc_hresult_err(e, IPC_RESUME, hr);
    }
    ipc_answer_fini(&a);
    ipc_msg_fini(&m);
    return rc;
}
