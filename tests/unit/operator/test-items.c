#include <criterion/criterion.h>
#include <string.h>

#include "items.h"

static void add(void *arg, const char *item, size_t len)
{
    bytes_add(arg, item, len);
    bytes_add_char(arg, '\n');
}

static void expect(const char *text, const char *items, const char *rest)
{
    struct bytes all = {0}, left = {0};
    items_cut(text, strlen(text), add, &all, &left);
    cr_assert_str_eq(all.data ? all.data : "", items);
    if (rest)
        cr_assert_str_eq(left.data ? left.data : "", rest);
    bytes_release(&all);
    bytes_release(&left);
}

Test(items, are_cut_out_of_their_list)
{
    expect("{\"metadata\":{\"items\":[{\"a\":1}]},\"items\":[{\"b\":[{}]}, {\"c\":\"]}\\\"\\\\\"}],"
           "\"z\":1}",
           "{\"b\":[{}]}\n{\"c\":\"]}\\\"\\\\\"}\n",
           "{\"metadata\":{\"items\":[{\"a\":1}]},\"items\":[],\"z\":1}");
    expect("{\"items\":[],\"metadata\":{}}", "", "{\"items\":[],\"metadata\":{}}");
    expect("{\"items\":null,\"others\":[{}]}", "", "{\"items\":null,\"others\":[{}]}");
    expect("{\"kind\":\"items\",\"others\":[{}]}", "", "{\"kind\":\"items\",\"others\":[{}]}");
}

Test(items, of_a_text_that_is_cut_are_no_list)
{
    const char *text = "{\"items\":[{\"a\":\"\\\"\"},{\"b\":1}],\"z\":\"\\";
    for (size_t n = 0; n <= strlen(text); n++) {
        struct bytes all = {0}, left = {0};
        items_cut(text, n, add, &all, &left);
        cr_assert(!left.len || left.data[left.len - 1] != '}');
        bytes_release(&all);
        bytes_release(&left);
    }
    expect("", "", "");
    expect("]}]}", "", "]}]}");
}
