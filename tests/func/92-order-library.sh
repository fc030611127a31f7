#!/usr/bin/env bash
# `make install` leaves libsampan-order with its headers and pkg-config file: a program outside the
# tree is built against those alone.
. "$SAMPAN_TESTS/lib/common.sh"
need_command pkg-config
need_command c++
make --no-print-directory -C "$SAMPAN_TESTS/.." order-install DESTDIR="$T/root" PREFIX=/usr BUILD="$SAMPAN_BUILD" >"$T/log/install"
cat >"$T/embed.c" <<'C'
#include <inttypes.h>
#include <order.h>
#include <owner.h>
#include <stdio.h>

int main(void)
{
    struct order_spec spec;
    struct order_token token;
    struct order *order;
    struct owners *owners;
    struct err err = {0};
    char text[ORDER_TOKEN_TEXT];
    if (order_spec_parse(&spec, "random,ranks=3,rank=1,batch-size=2,shuffle=true", &err) ||
        order_new(&order, &spec, 11, &err))
        return puts(err.msg);
    for (uint64_t i = 0; i < order_length(order); i++)
        printf("%" PRIu64 " ", order_at(order, i));
    if (order_token_of(order, 2, &token, &err))
        return puts(err.msg);
    order_token_print(&token, text);
    printf("%.16s ", text);
    order_free(order);
    struct owner_conf conf = {.strategy = OWNER_RANDOM, .partitions = 3, .sampler = spec, .samples = 11, .numbered = 11};
    if (owners_new(&owners, &conf, &err))
        return puts(err.msg);
    printf("%u\n", (unsigned)owners_of(owners, 4, owner_key(4)));
    owners_free(owners);
    return order_spec_parse(&spec, "nonsense", &err) == -1 ? 0 : 1;
}
C
export PKG_CONFIG_PATH="$T/root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$T/root" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
# shellcheck disable=SC2046
(cd "$T" && cc -std=c17 -Wall -Werror -o embed embed.c $(pkg-config --cflags --libs sampan-order))
cat >"$T/embed.cc" <<'C'
#include <owner.h>

int main()
{
    struct order_spec spec;
    struct err err = {};
    bool refused = order_spec_parse(&spec, "nonsense", &err) == -1 && err.error_class == ERR_USAGE;
    return refused && owner_key(4) != owner_key(5) ? 0 : 1;
}
C
# shellcheck disable=SC2046
(cd "$T" && c++ -std=c++17 -Wall -Wextra -Werror -o embed-cc embed.cc $(pkg-config --cflags --libs sampan-order) && ./embed-cc)
expect "what it prints" "$("$T/embed")" "4 10 9 3 sampan-order-1:1 1"
if nm -g --defined-only "$T/root/usr/lib/libsampan-order.a" | awk 'NF == 3 { print $3 }' | grep -Ev '^(order_|owner|err_)' >"$T/names"; then
    fail "names that are not its headers': $(cat "$T/names")"
fi
