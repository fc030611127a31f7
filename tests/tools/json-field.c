/*
 * json-field: one field of a JSON document.
 *
 *   json-field PATH <JSON      reads.store, cache.tiers.0.used
 *
 * A string is printed as it is, anything else as JSON. No such field: exit 1.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *part_of(const json_t *value, const char *name)
{
    return json_is_array(value) ? json_array_get(value, strtoul(name, NULL, 10))
                                : json_object_get(value, name);
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *document = argc == 2 ? json_loadf(stdin, JSON_DECODE_ANY, &error) : NULL;
    if (!document) {
        fprintf(stderr, "json-field: %s\n",
                argc == 2 ? error.text : "usage: json-field PATH <JSON");
        return 1;
    }
    const json_t *value = document;
    char *path = strdup(argv[1]), *rest = path;
    for (const char *name; value && (name = strsep(&rest, "."));)
        value = part_of(value, name);
    free(path);
    if (!value) {
        fprintf(stderr, "json-field: no %s\n", argv[1]);
    } else if (json_is_string(value)) {
        puts(json_string_value(value));
    } else {
        json_dumpf(value, stdout, JSON_ENCODE_ANY);
        putchar('\n');
    }
    int code = value ? 0 : 1;
    json_decref(document);
    return code;
}
