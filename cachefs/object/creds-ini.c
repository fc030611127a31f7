/*
 * INI text as the AWS tools read it: "key = value" or "key: value" in sections, comments on lines
 * of their own or behind a section's name, and keys below a key without a value:
 *
 *   [profile "my training"] # a name with a blank
 *   region = eu-west-3
 *   s3 =
 *     addressing_style = path
 */
#include "creds-internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *text;
    size_t len;
};

static struct span trim(const char *text, size_t len)
{
    while (len && isspace((unsigned char)*text)) {
        text++;
        len--;
    }
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    return (struct span){text, len};
}

static bool same_name(struct span s, const char *name)
{
    return strlen(name) == s.len && (!s.len || strncasecmp(s.text, name, s.len) == 0);
}

/* A walk over the lines. */
struct ini {
    const char *at, *end;
    struct span section; /* of the line; empty before the first */
    struct span above;   /* the key that this line's is below; empty: none */
    struct span key, value;
    struct span last; /* the last key that is below none ... */
    size_t last_indent;
    bool last_empty; /* ... and whether its line has no value */
};

static void ini_begin(struct ini *i, const char *text, size_t len)
{
    *i = (struct ini){.at = text, .end = text + len};
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        i->at += 3; /* some editors begin a file with a mark that it is UTF-8 */
}

/* "[profile x]", "[profile "x"]" and "[x]" are x. What stands behind the bracket is a comment. */
static bool take_section(struct ini *i, struct span line)
{
    const char *close = line.text[0] == '[' ? memchr(line.text, ']', line.len) : NULL;
    if (!close)
        return false;
    struct span name = trim(line.text + 1, (size_t)(close - line.text) - 1);
    if (name.len > 8 && strncmp(name.text, "profile", 7) == 0 &&
        isspace((unsigned char)name.text[7]))
        name = trim(name.text + 8, name.len - 8);
    if (name.len > 2 && name.text[0] == '"' && name.text[name.len - 1] == '"')
        name = (struct span){name.text + 1, name.len - 2};
    i->section = name;
    i->last = i->above = (struct span){0};
    i->last_empty = false;
    return true;
}

static bool take_pair(struct ini *i, struct span line, size_t indent)
{
    size_t n = 0;
    while (n < line.len && line.text[n] != '=' && line.text[n] != ':')
        n++;
    if (n == line.len)
        return false;
    i->key = trim(line.text, n);
    i->value = trim(line.text + n + 1, line.len - n - 1);
    if (i->last_empty && indent > i->last_indent) {
        i->above = i->last;
        return true;
    }
    i->above = (struct span){0};
    i->last = i->key;
    i->last_indent = indent;
    i->last_empty = i->value.len == 0;
    return true;
}

/* The next section's name (its key is empty) or pair; false at the end. */
static bool ini_next(struct ini *i)
{
    while (i->at < i->end) {
        const char *start = i->at;
        const char *nl = memchr(start, '\n', (size_t)(i->end - start));
        i->at = nl ? nl + 1 : i->end;
        struct span line = trim(start, (size_t)((nl ? nl : i->end) - start));
        i->key = i->value = (struct span){0};
        if (!line.len || line.text[0] == '#' || line.text[0] == ';')
            continue;
        if (take_section(i, line) || take_pair(i, line, (size_t)(line.text - start)))
            return true;
    }
    return false;
}

static bool in_section(const struct ini *i, const char *section)
{
    return strlen(section) == i->section.len &&
           (!i->section.len || memcmp(section, i->section.text, i->section.len) == 0);
}

bool ini_get(const char *text, size_t len, const char *section, const char *above, const char *key,
             struct bytes *ret)
{
    struct ini i;
    ini_begin(&i, text, len);
    while (ini_next(&i)) {
        if (!in_section(&i, section) || !same_name(i.above, above) || !same_name(i.key, key))
            continue;
        bytes_add(ret, i.value.text, i.value.len);
        return i.value.len > 0;
    }
    return false;
}

bool ini_has_section(const char *text, size_t len, const char *section)
{
    struct ini i;
    ini_begin(&i, text, len);
    while (ini_next(&i))
        if (!i.key.len && in_section(&i, section))
            return true;
    return false;
}
