/* SPDX-License-Identifier: MIT */
/* test_causality.c: parts of operations across their awaits: who awaits whom is read from stacks, and nothing made up.
 */
#include "../clr/methods_events.h"
#include "kit.h"

/* Methods by their address: 0x1000 * (number + 1). */
enum {
    MAIN,
    PAY_KICK,
    PAY,
    SEND_KICK,
    SEND,
    START,
    BOX,
    CONTEXT,
    END,
    RUN,
    AWAIT,
    POOL,
    OTHER_KICK,
    OTHER,
    LAMBDA,
    METHODS
};
static const struct {
    const char *type, *name;
} methods[METHODS] = {
    [MAIN] = {"Shop.Program", "Main"},
    [PAY_KICK] = {"Shop.Cart", "PayAsync"},
    [PAY] = {"Shop.Cart+<PayAsync>d__1", "MoveNext"},
    [SEND_KICK] = {"Shop.Cart", "SendAsync"},
    [SEND] = {"Shop.Cart+<SendAsync>d__2", "MoveNext"},
    [START] = {"System.Runtime.CompilerServices.AsyncMethodBuilderCore", "Start"},
    [BOX] = {"System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1+AsyncStateMachineBox`1[X]", "MoveNext"},
    [CONTEXT] = {"System.Threading.ExecutionContext", "RunInternal"},
    [END] = {"System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1[X]", "SetExistingTaskResult"},
    [RUN] = {"System.Threading.Tasks.Task", "RunContinuations"},
    [AWAIT] = {"System.Threading.Tasks.AwaitTaskContinuation", "RunOrScheduleAction"},
    [POOL] = {"System.Threading.ThreadPoolWorkQueue", "Dispatch"},
    [OTHER_KICK] = {"Shop.Other", "BuyAsync"},
    [OTHER] = {"Shop.Other+<BuyAsync>d__0", "MoveNext"},
    [LAMBDA] = {"Shop.Program+<>c+<<Main>b__0_1>d", "MoveNext"},
};

static profile_builder *begin(void)
{
    profile_builder *b = kit_builder(&(profile_cfg){.kind = PROFILE_CPU});
    for (uint64_t i = 0; i < METHODS; i++)
        method(profile_builder_methods(b), ALIVE, 9,
               (body){.start = 0x1000 * (i + 1), .namespace_ = methods[i].type, .name = methods[i].name});
    return b;
}

/* Root first; ends with METHODS. */
#define STACK(b, n, ...) stack((b), (n), (const int[]){__VA_ARGS__, METHODS})
static void stack(profile_builder *b, uint64_t samples, const int *list)
{
    uint64_t ips[32];
    uint32_t n = 0;
    while (list[n] != METHODS)
        n++;
    for (uint32_t i = 0; i < n; i++)
        ips[n - 1 - i] = 0x1000 * ((uint64_t)list[i] + 1) + 8;
    assert_true(profile_add(b, &(profile_sample){.ips = ips, .n = n, .thread = 1, .time = 1, .samples = samples}));
}

static profile *joined(profile_builder *b, uint64_t n_joined, uint64_t unseen, uint64_t several)
{
    profile *p = kit_build(b), *c = profile_causality(p, NULL);
    assert_non_null(c);
    assert_int_equal(profile_info_of(c)->joined, n_joined);
    assert_int_equal(profile_info_of(c)->unseen, unseen);
    assert_int_equal(profile_info_of(c)->several, several);
    assert_int_equal(profile_node_at(c, 0).inclusive, profile_node_at(p, 0).inclusive);
    profile_unref(p);
    return c;
}

static void a_resumed_method_is_put_below_its_one_caller(void **state)
{
    (void)state;
    profile_builder *b = begin();
    STACK(b, 1, MAIN, PAY_KICK, START, PAY, SEND_KICK, START, SEND); /* up to the first await: who calls whom */
    STACK(b, 5, POOL, BOX, CONTEXT, SEND);                           /* later, on the pool */
    STACK(b, 3, POOL, BOX, PAY);
    STACK(b, 2, POOL);
    profile *c = joined(b, 8, 0, 0);
    assert_text(kit_tree(c), "<root> 11/0 (Shop.Program.Main() 9/0 (Shop.Cart+<PayAsync>d__1.MoveNext() 9/3 "
                             "(Shop.Cart+<SendAsync>d__2.MoveNext() 6/6)), "
                             "System.Threading.ThreadPoolWorkQueue.Dispatch() 2/2)");
    profile_unref(c);
}

static void who_goes_on_when_another_ends_awaited_it(void **state)
{
    (void)state;
    profile_builder *b = begin();
    STACK(b, 4, POOL, BOX, SEND, END, RUN, BOX, CONTEXT, PAY); /* PayAsync goes on at the end of SendAsync */
    STACK(b, 5, POOL, BOX, SEND);
    profile *c = joined(b, 0, 9, 0);
    assert_text(kit_tree(c), "<root> 9/0 (<async: caller not seen> 9/0 (Shop.Cart+<PayAsync>d__1.MoveNext() 9/4 "
                             "(Shop.Cart+<SendAsync>d__2.MoveNext() 5/5)))");
    profile_rows r;
    assert_int_equal(profile_top(c, PROFILE_BY_EXCLUSIVE, 9, &r, NULL), 0); /* in no ranking */
    assert_text(kit_rows(c, &r), "Shop.Cart+<SendAsync>d__2.MoveNext() 5/5, Shop.Cart+<PayAsync>d__1.MoveNext() 9/4");
    profile_unref(c);
}

static void whom_several_call_is_put_below_none_of_them(void **state)
{
    (void)state;
    profile_builder *b = begin();
    STACK(b, 1, MAIN, PAY_KICK, START, PAY, SEND_KICK, START, SEND);
    STACK(b, 1, MAIN, OTHER_KICK, START, OTHER, SEND_KICK, START, SEND);
    STACK(b, 7, POOL, BOX, SEND);
    STACK(b, 2, POOL, BOX, PAY);
    profile *c = joined(b, 2, 0, 7);
    assert_text(kit_tree(c), "<root> 11/0 (<async: several callers> 7/0 (Shop.Cart+<SendAsync>d__2.MoveNext() 7/7), "
                             "Shop.Program.Main() 4/0 (Shop.Cart+<PayAsync>d__1.MoveNext() 3/2 "
                             "(Shop.Cart+<SendAsync>d__2.MoveNext() 1/1), Shop.Other+<BuyAsync>d__0.MoveNext() 1/0 "
                             "(Shop.Cart+<SendAsync>d__2.MoveNext() 1/1)))");
    profile_unref(c);
}

static void a_method_that_another_only_wakes_was_not_awaited_by_it(void **state)
{
    (void)state;
    profile_builder *b = begin();
    STACK(b, 4, POOL, BOX, SEND, RUN, BOX, PAY); /* SendAsync completes something itself, and goes on */
    profile *c = joined(b, 0, 4, 0);
    assert_text(kit_tree(c), "<root> 4/0 (<async: caller not seen> 4/0 (Shop.Cart+<PayAsync>d__1.MoveNext() 4/4))");
    profile_unref(c);
}

/* Optimised code: the box and the builder's end have no frames of their own. */
static void who_was_woken_without_a_box_was_not_called(void **state)
{
    (void)state;
    profile_builder *b = begin();
    STACK(b, 1, POOL, BOX, PAY, SEND); /* calls it: the author's method has no frame either */
    STACK(b, 4, POOL, BOX, SEND, RUN, AWAIT, CONTEXT, PAY);
    STACK(b, 2, POOL, BOX, SEND, RUN, AWAIT, PAY);
    STACK(b, 5, POOL, BOX, SEND);
    profile *c = joined(b, 0, 12, 0);
    assert_text(kit_tree(c), "<root> 12/0 (<async: caller not seen> 12/0 (Shop.Cart+<PayAsync>d__1.MoveNext() 12/6 "
                             "(Shop.Cart+<SendAsync>d__2.MoveNext() 6/6)))");
    profile_unref(c);
}

static void who_ends_before_a_box_without_a_frame_was_awaited(void **state)
{
    (void)state;
    profile_builder *b = begin();
    STACK(b, 4, POOL, BOX, SEND, END, RUN, AWAIT, CONTEXT, PAY);
    STACK(b, 1, POOL, BOX, OTHER, RUN, AWAIT, LAMBDA); /* says nothing of who awaits whom */
    STACK(b, 5, POOL, CONTEXT, SEND);
    profile *c = joined(b, 0, 10, 0);
    assert_text(kit_tree(c), "<root> 10/0 (<async: caller not seen> 10/0 (Shop.Cart+<PayAsync>d__1.MoveNext() 9/4 "
                             "(Shop.Cart+<SendAsync>d__2.MoveNext() 5/5), "
                             "Shop.Program+<>c+<<Main>b__0_1>d.MoveNext() 1/1))");
    profile_unref(c);
}

static void what_a_waker_starts_is_not_awaited_by_who_ended(void **state)
{
    (void)state;
    profile_builder *b = begin();
    STACK(b, 1, POOL, BOX, SEND, RUN, MAIN, PAY_KICK, START, PAY); /* a continuation that begins an operation */
    STACK(b, 5, POOL, BOX, PAY);
    profile *c = joined(b, 0, 6, 0);
    profile_unref(c);
}

static void callers_in_a_circle_are_no_answer(void **state)
{
    (void)state;
    profile_builder *b = begin();
    STACK(b, 1, POOL, BOX, PAY, SEND_KICK, START, SEND);
    STACK(b, 1, POOL, BOX, SEND, PAY_KICK, START, PAY);
    STACK(b, 3, POOL, BOX, LAMBDA); /* a lambda has a body, too */
    profile *c = joined(b, 0, 3, 2);
    profile_unref(c);
}

static int make(void *arg)
{
    (void)arg;
    err e = {0};
    mem_fail_at(-1);
    profile_builder *b = begin();
    STACK(b, 1, MAIN, PAY_KICK, START, PAY, SEND_KICK, START, SEND);
    STACK(b, 5, POOL, BOX, CONTEXT, SEND);
    profile *p = kit_build(b);
    mem_fail_at((long)(intptr_t)arg);
    profile *c = profile_causality(p, &e);
    bool fired = mem_failed();
    mem_fail_at(-1);
    profile_unref(c);
    profile_unref(p);
    return fired ? (c ? 1 : 2) : 0;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    intptr_t n = 0;
    while (make((void *)n) != 0)
        n++;
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_method_is_put_below_its_one_caller),
        cmocka_unit_test(who_goes_on_when_another_ends_awaited_it),
        cmocka_unit_test(whom_several_call_is_put_below_none_of_them),
        cmocka_unit_test(a_method_that_another_only_wakes_was_not_awaited_by_it),
        cmocka_unit_test(who_was_woken_without_a_box_was_not_called),
        cmocka_unit_test(who_ends_before_a_box_without_a_frame_was_awaited),
        cmocka_unit_test(what_a_waker_starts_is_not_awaited_by_who_ended),
        cmocka_unit_test(callers_in_a_circle_are_no_answer),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
