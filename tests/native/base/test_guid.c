/* SPDX-License-Identifier: MIT */
/* test_guid.c: GUIDs as text and back, and what is no GUID. */
#include "base/guid.h"

#include "check.h"

static const uint8_t GUID[GUID_BYTES] = {0xf6, 0x72, 0x7b, 0x49, 0x0a, 0x39, 0xfc, 0x44,
                                         0x87, 0x8e, 0x5a, 0x2d, 0x63, 0xb6, 0xcc, 0x4b};

static void the_first_three_groups_are_little_endian(void **state)
{
    (void)state;
    char text[GUID_TEXT_LEN + 1], hex[2 * GUID_BYTES + 1];
    guid_text(GUID, text);
    guid_hex(GUID, hex);
    assert_string_equal(text, "497b72f6-390a-44fc-878e-5a2d63b6cc4b");
    assert_string_equal(hex, "497b72f6390a44fc878e5a2d63b6cc4b");
}

static void text_becomes_the_same_bytes(void **state)
{
    (void)state;
    static const char *const same[] = {"497b72f6-390a-44fc-878e-5a2d63b6cc4b", "497B72F6-390A-44FC-878E-5A2D63B6CC4B"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        uint8_t guid[GUID_BYTES] = {0};
        assert_true(guid_parse(slice_str(same[i]), guid));
        assert_memory_equal(guid, GUID, sizeof guid);
    }
}

static void what_is_no_guid_leaves_the_bytes_alone(void **state)
{
    (void)state;
    static const char *const none[] = {"",
                                       "497b72f6-390a-44fc-878e-5a2d63b6cc4",
                                       "497b72f6-390a-44fc-878e-5a2d63b6cc4bb",
                                       "497b72f6390a-44fc-878e--5a2d63b6cc4b",
                                       "497b72f6-390a-44fc-878e-5a2d63b6cc4g",
                                       "497b72f6 390a 44fc 878e 5a2d63b6cc4b",
                                       "{97b72f6-390a-44fc-878e-5a2d63b6cc4}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        uint8_t guid[GUID_BYTES];
        memcpy(guid, GUID, sizeof guid);
        assert_false(guid_parse(slice_str(none[i]), guid));
        assert_memory_equal(guid, GUID, sizeof guid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_three_groups_are_little_endian),
        cmocka_unit_test(text_becomes_the_same_bytes),
        cmocka_unit_test(what_is_no_guid_leaves_the_bytes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
