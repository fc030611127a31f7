/*
 * Patterns as rsync has them, and rules of them. "name" fits the last part of a path, "dir/"
 * folders alone, "a/b" the end of a path (part by part), "/a/b" from the top. A star is any but
 * '/', a '?' one but '/', "[a-z]", "[!a]" and "[[:digit:]]" one of a class; two stars are any, and
 * three after "dir/" mean the folder and all below. A backslash takes the meaning from what follows
 * it, but is itself where nothing in the pattern has one.
 *
 * A key is tried folder by folder from the top: at each step the first rule that fits decides; an
 * excluded folder takes all below it with it.
 */
#include <ctype.h>
#include <string.h>

#include "transfer.h"

struct text {
    const char *at;
    size_t len;
};

/* "[:digit:]" at p: its length, and whether c is one; 0 if it is none of these. */
static size_t named_class(const char *p, size_t len, unsigned char c, bool *ret)
{
    static const struct {
        const char *name;
        int (*has)(int);
    } classes[] = {{"[:alnum:]", isalnum}, {"[:alpha:]", isalpha}, {"[:blank:]", isblank},
                   {"[:cntrl:]", iscntrl}, {"[:digit:]", isdigit}, {"[:graph:]", isgraph},
                   {"[:lower:]", islower}, {"[:print:]", isprint}, {"[:punct:]", ispunct},
                   {"[:space:]", isspace}, {"[:upper:]", isupper}, {"[:xdigit:]", isxdigit}};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        size_t n = strlen(classes[i].name);
        if (len < n || memcmp(p, classes[i].name, n) != 0)
            continue;
        *ret = c < 0x80 && classes[i].has(c);
        return n;
    }
    return 0;
}

/* "[a-z]" at p: its length, and whether c is in it; 0 if it is not closed. */
static size_t class_fits(const char *p, size_t len, unsigned char c, bool *ret)
{
    size_t i = 1;
    bool others = i < len && (p[i] == '!' || p[i] == '^'), in = false;
    i += others;
    for (size_t first = i; i < len && (p[i] != ']' || i == first); i++) {
        bool named;
        size_t used = named_class(p + i, len - i, c, &named);
        if (used) {
            in |= named;
            i += used - 1;
            continue;
        }
        if (p[i] == '\\' && i + 1 < len)
            i++;
        unsigned char low = (unsigned char)p[i], high = low;
        if (i + 2 < len && p[i + 1] == '-' && p[i + 2] != ']') {
            high = (unsigned char)p[i + 2];
            i += 2;
        }
        in |= c == low || (low <= c && c <= high);
    }
    *ret = in != others && c != '/';
    return i < len ? i + 1 : 0;
}

/* One step of the pattern against one byte: the pattern's bytes used, 0 if it does not fit. */
static size_t step_fits(const char *p, size_t len, char c)
{
    bool in;
    size_t used;
    switch (*p) {
    case '?':
        return c != '/';
    case '[':
        used = class_fits(p, len, (unsigned char)c, &in);
        if (used)
            return in ? used : 0;
        return c == '[';
    case '\\':
        if (len > 1)
            return p[1] == c ? 2 : 0;
        return c == '\\';
    default:
        return *p == c;
    }
}

/* A place to go back to: the pattern after a star, and how far the star has eaten. */
struct star {
    bool set;
    size_t pattern, text;
};

static bool go_back(struct star *one, struct star *two, struct text t, size_t *p, size_t *i)
{
    if (one->set && one->text < t.len && t.at[one->text] != '/') {
        *p = one->pattern;
        *i = ++one->text;
        return true;
    }
    one->set = false;
    if (!two->set || two->text >= t.len)
        return false;
    *p = two->pattern;
    *i = ++two->text;
    return true;
}

/* Most patterns of a long list differ from a name in their first letter: that is seen at once. */
static bool begins_otherwise(struct text pattern, struct text t)
{
    return pattern.len && t.len && pattern.at[0] != t.at[0] && !strchr("*?[\\", pattern.at[0]);
}

static bool has_wildcards(struct text p)
{
    for (size_t i = 0; i < p.len; i++)
        if (p.at[i] == '*' || p.at[i] == '?' || p.at[i] == '[')
            return true;
    return false;
}

/* The whole of the text. */
static bool fits(struct text pattern, struct text t)
{
    struct star one = {0}, two = {0}; /* of the last '*', of the last '**' */
    size_t p = 0, i = 0;
    if (begins_otherwise(pattern, t))
        return false;
    if (!has_wildcards(pattern))
        return pattern.len == t.len && memcmp(pattern.at, t.at, t.len) == 0;
    for (;;) {
        if (p < pattern.len && pattern.at[p] == '*') {
            size_t run = strspn(pattern.at + p, "*");
            run = run < pattern.len - p ? run : pattern.len - p;
            p += run;
            if (run > 1) {
                two = (struct star){true, p, i};
                one.set = false;
            } else {
                one = (struct star){true, p, i};
            }
            continue;
        }
        size_t used =
            p < pattern.len && i < t.len ? step_fits(pattern.at + p, pattern.len - p, t.at[i]) : 0;
        if (used) {
            p += used;
            i++;
        } else if (p == pattern.len && i == t.len) {
            return true;
        } else if (!go_back(&one, &two, t, &p, &i)) {
            return false;
        }
    }
}

/* The pattern against the end of the path, from the start of any of its parts. */
static bool fits_tail(struct text pattern, struct text path)
{
    for (;;) {
        if (fits(pattern, path))
            return true;
        const char *slash = memchr(path.at, '/', path.len);
        if (!slash)
            return false;
        path.len -= (size_t)(slash + 1 - path.at);
        path.at = slash + 1;
    }
}

static bool has_inner_slash(struct text p)
{
    return memchr(p.at, '/', p.len) || memmem(p.at, p.len, "**", 2);
}

static struct text last_part(struct text path)
{
    const char *slash = memrchr(path.at, '/', path.len);
    if (!slash)
        return path;
    return (struct text){slash + 1, path.len - (size_t)(slash + 1 - path.at)};
}

static bool fits_path(struct text pattern, struct text path)
{
    if (pattern.len && pattern.at[0] == '/')
        return fits((struct text){pattern.at + 1, pattern.len - 1}, path);
    /* Two stars and a slash, in front, are no folder at all, too. */
    size_t stars = strspn(pattern.at, "*");
    if (stars > 1 && stars < pattern.len && pattern.at[stars] == '/' &&
        fits((struct text){pattern.at + stars + 1, pattern.len - stars - 1}, path))
        return true;
    return has_inner_slash(pattern) ? fits_tail(pattern, path) : fits(pattern, last_part(path));
}

bool sync_pattern_fits(const char *text, const char *path, size_t len)
{
    struct text pattern = {text, strlen(text)}, p = {path, len};
    bool is_folder = len && path[len - 1] == '/';
    p.len -= is_folder;
    static const char all[] = "/***";
    if (pattern.len > 4 && memcmp(pattern.at + pattern.len - 4, all, 4) == 0) {
        /* As "dir/" + "**", which the folder itself fits with the slash at its end. */
        return fits_path((struct text){pattern.at, pattern.len - 1}, (struct text){path, len});
    }
    if (pattern.len > 1 && pattern.at[pattern.len - 1] == '/') {
        pattern.len--;
        if (!is_folder)
            return false;
    }
    return fits_path(pattern, p);
}

int sync_rules_check(const struct sync_rule *rules, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *p = rules[i].pattern;
        if (!*p || strspn(p, "/") == strlen(p))
            return err_set(err, ERR_USAGE, "--%s: \"%s\" is no pattern (like *.jpg or /train/)",
                           rules[i].include ? "include" : "exclude", p);
    }
    return 0;
}

/* 1: included, 0: excluded, -1: no rule fits. */
static int verdict(const struct sync_rule *rules, size_t n, const char *path, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (sync_pattern_fits(rules[i].pattern, path, len))
            return rules[i].include;
    return -1;
}

bool sync_rules_pass(const struct sync_rule *rules, size_t n, bool full_path, const char *key,
                     size_t len)
{
    if (n == 0)
        return true;
    for (size_t at = 0; !full_path && at < len;) {
        const char *slash = memchr(key + at, '/', len - at);
        if (!slash || slash == key + len - 1)
            break;
        at = (size_t)(slash + 1 - key);
        if (verdict(rules, n, key, at) == 0)
            return false;
    }
    return verdict(rules, n, key, len) != 0;
}
