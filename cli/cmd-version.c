/* version: what this program is and what it is built on. */
#include <curl/curl.h>
#include <sys/utsname.h>

#include "cli-internal.h"
#include "crc.h"

struct version_options {
    bool json;
};

static const struct conf_row rows[] = {JSON_ROW(version_options, json)};

static int run(const struct conf *conf, const void *options, struct err *err)
{
    (void)conf;
    const struct version_options *o = options;
    cleanup_bytes struct bytes text = {0};
    struct utsname kernel;
    if (uname(&kernel))
        kernel.release[0] = '\0';
    if (o->json) {
        struct json_writer w;
        jw_init(&w, &text);
        jw_object(&w, NULL);
        jw_str(&w, "version", SAMPAN_VERSION);
        jw_str(&w, "crc32c", crc32c_how());
        jw_str(&w, "curl", curl_version());
        jw_str(&w, "kernel", kernel.release);
        jw_end(&w);
        bytes_add_char(&text, '\n');
    } else {
        bytes_addf(&text, "sampan %s\n", SAMPAN_VERSION);
    }
    return print_out(&text, err);
}

const struct command cmd_version = {
    .name = "version",
    .args = "",
    .summary = "print the version",
    .about = "Prints the version; with --json also the libraries and the kernel it runs on. "
             "SAMPAN_CONFIG is not read.",
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct version_options),
    .no_config = true,
    .run = run,
};
