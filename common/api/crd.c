/*
 * CustomResourceDefinitions from the tables. Text is written as YAML whose strings are JSON
 * strings, which YAML takes as they are.
 */
#include <inttypes.h>
#include <string.h>

#include "api.h"
#include "mem.h"

struct yaml {
    struct bytes *out;
    unsigned depth; /* of two blanks each */
};

static void line(struct yaml *y, const char *key, const char *value)
{
    bytes_addf(y->out, "%*s%s:%s%s\n", (int)(2 * y->depth), "", key, *value ? " " : "", value);
}

static void open_key(struct yaml *y, const char *key)
{
    line(y, key, "");
    y->depth++;
}

static void close_key(struct yaml *y)
{
    y->depth--;
}

static void text(struct yaml *y, const char *key, const char *value)
{
    cleanup_bytes struct bytes quoted = {0};
    struct json_writer w;
    jw_init(&w, &quoted);
    jw_str(&w, NULL, value);
    line(y, key, quoted.data);
}

static void number(struct yaml *y, const char *key, int64_t n)
{
    char value[24];
    snprintf(value, sizeof value, "%" PRId64, n);
    line(y, key, value);
}

/* The first line of a list's item: the others follow at the depth that is left behind. */
static void open_item(struct yaml *y, const char *key, const char *value)
{
    cleanup_bytes struct bytes quoted = {0};
    struct json_writer w;
    jw_init(&w, &quoted);
    jw_str(&w, NULL, value);
    bytes_addf(y->out, "%*s- %s: %s\n", (int)(2 * y->depth), "", key, quoted.data);
    y->depth++;
}

static void words(struct yaml *y, const char *key, const char *choices)
{
    open_key(y, key);
    for (const char *c = choices; c;) {
        size_t len = strcspn(c, "|");
        bytes_addf(y->out, "%*s- \"%.*s\"\n", (int)(2 * y->depth), "", (int)len, c);
        c = c[len] ? c + len + 1 : NULL;
    }
    close_key(y);
}

/* --- a field ---------------------------------------------------------------------------------- */

/* Without its rules: its field's stand beside them. */
static void schema(struct yaml *y, const struct api_object *o);

static void rule(struct yaml *y, const char *cel, const char *message)
{
    open_item(y, "rule", cel);
    text(y, "message", message);
    close_key(y);
}

/* A member that is set once neither comes nor goes: a rule of its own holds only while it is there.
 */
static bool is_kept(const struct api_field *f)
{
    return (f->flags & (API_FIXED | API_REQUIRED)) == API_FIXED && !f->dflt;
}

static void kept(struct yaml *y, const struct api_field *f)
{
    cleanup_free char *cel = xasprintf("has(self.%s) == has(oldSelf.%s)", f->name, f->name);
    rule(y, cel, f->why);
}

/* Of a field (NULL: none) and of the object it holds (NULL: none). */
static void validations(struct yaml *y, const struct api_field *f, const struct api_object *o)
{
    bool fixed = f && (f->flags & API_FIXED);
    size_t n = fixed + (o ? o->n_rules : 0);
    for (size_t i = 0; o && i < o->n_fields; i++)
        n += is_kept(&o->fields[i]);
    if (!n)
        return;
    open_key(y, "x-kubernetes-validations");
    if (fixed)
        rule(y, "self == oldSelf", f->why);
    for (size_t i = 0; o && i < o->n_rules; i++)
        rule(y, o->rules[i].cel, o->rules[i].message);
    for (size_t i = 0; o && i < o->n_fields; i++)
        if (is_kept(&o->fields[i]))
            kept(y, &o->fields[i]);
    close_key(y);
}

static void default_of(struct yaml *y, const struct api_field *f)
{
    if (!f->dflt || (f->flags & API_QUIET))
        return;
    if (f->type == API_INT || f->type == API_BOOL || f->type == API_OBJECT || f->type == API_ANY)
        line(y, "default", f->dflt);
    else
        text(y, "default", f->dflt);
}

/* The largest number of all is no bound: the API server reads bounds as floating point, where it
 * turns into the smallest. */
static void bounds(struct yaml *y, const struct api_field *f, const char *min, const char *max)
{
    if (f->min || f->max)
        number(y, min, f->min);
    if (f->max && f->max != INT64_MAX)
        number(y, max, f->max);
}

static void string_type(struct yaml *y, const struct api_field *f)
{
    line(y, "type", "string");
    if (f->type == API_TIME)
        line(y, "format", "date-time");
    if (f->type == API_ENUM)
        words(y, "enum", f->choices);
    if (f->type == API_DURATION)
        text(y, "pattern", "^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)$");
    if (f->pattern)
        text(y, "pattern", f->pattern);
    if (f->type == API_STRING)
        bounds(y, f, "minLength", "maxLength");
}

static void any_type(struct yaml *y, const struct api_field *f)
{
    if (!f->schema)
        line(y, "x-kubernetes-preserve-unknown-fields", "true");
    for (const char *c = f->schema; c && *c;) {
        size_t len = strcspn(c, "\n");
        bytes_addf(y->out, "%*s%.*s\n", (int)(2 * y->depth), "", (int)len, c);
        c += len + (c[len] == '\n');
    }
}

static void list_type(struct yaml *y, const struct api_field *f)
{
    line(y, "type", "array");
    bounds(y, f, "minItems", "maxItems");
    if (f->list_key) {
        line(y, "x-kubernetes-list-type", "map");
        bytes_addf(y->out, "%*sx-kubernetes-list-map-keys: [%s]\n", (int)(2 * y->depth), "",
                   f->list_key);
    }
    open_key(y, "items");
    if (f->type == API_LIST) {
        schema(y, f->object);
        validations(y, NULL, f->object);
    } else {
        line(y, "type", "string");
    }
    close_key(y);
}

static void type_of(struct yaml *y, const struct api_field *f)
{
    switch (f->type) {
    case API_STRING:
    case API_ENUM:
    case API_CRON:
    case API_TIME:
    case API_DURATION:
        string_type(y, f);
        break;
    case API_BYTES:
        line(y, "x-kubernetes-int-or-string", "true");
        break;
    case API_ANY:
        any_type(y, f);
        break;
    case API_INT:
        line(y, "type", "integer");
        line(y, "format", "int64");
        bounds(y, f, "minimum", "maximum");
        break;
    case API_BOOL:
        line(y, "type", "boolean");
        break;
    case API_OBJECT:
        schema(y, f->object);
        break;
    case API_LIST:
    case API_STRINGS:
        list_type(y, f);
        break;
    case API_MAP:
        line(y, "type", "object");
        open_key(y, "additionalProperties");
        line(y, "type", "string");
        close_key(y);
        break;
    }
}

static void field(struct yaml *y, const struct api_field *f)
{
    open_key(y, f->name);
    text(y, "description", f->doc);
    type_of(y, f);
    default_of(y, f);
    validations(y, f, f->type == API_OBJECT ? f->object : NULL);
    close_key(y);
}

/* --- an object -------------------------------------------------------------------------------- */

static void required(struct yaml *y, const struct api_object *o)
{
    bool any = false;
    for (size_t i = 0; i < o->n_fields; i++) {
        if (!(o->fields[i].flags & API_REQUIRED))
            continue;
        if (!any)
            open_key(y, "required");
        any = true;
        bytes_addf(y->out, "%*s- %s\n", (int)(2 * y->depth), "", o->fields[i].name);
    }
    if (any)
        close_key(y);
}

static void schema(struct yaml *y, const struct api_object *o)
{
    line(y, "type", "object");
    open_key(y, "properties");
    for (size_t i = 0; i < o->n_fields; i++)
        field(y, &o->fields[i]);
    close_key(y);
    required(y, o);
}

static void columns(struct yaml *y, const struct api_kind *k)
{
    open_key(y, "additionalPrinterColumns");
    for (size_t i = 0; i < k->n_columns; i++) {
        const struct api_column *c = &k->columns[i];
        open_item(y, "name", c->name);
        text(y, "type", c->type);
        text(y, "jsonPath", c->path);
        text(y, "description", c->doc);
        if (c->priority)
            number(y, "priority", c->priority);
        close_key(y);
    }
    close_key(y);
}

static void top_level(struct yaml *y, const struct api_kind *k)
{
    open_key(y, "schema");
    open_key(y, "openAPIV3Schema");
    text(y, "description", k->doc);
    line(y, "type", "object");
    open_key(y, "properties");
    open_key(y, "apiVersion");
    line(y, "type", "string");
    close_key(y);
    open_key(y, "kind");
    line(y, "type", "string");
    close_key(y);
    open_key(y, "metadata");
    line(y, "type", "object");
    close_key(y);
    open_key(y, "spec");
    text(y, "description", k->spec->doc);
    schema(y, k->spec);
    validations(y, NULL, k->spec);
    close_key(y);
    open_key(y, "status");
    text(y, "description", k->status->doc);
    schema(y, k->status);
    close_key(y);
    close_key(y);
    line(y, "required", "[spec]");
    if (k->n_rules)
        open_key(y, "x-kubernetes-validations");
    for (size_t i = 0; i < k->n_rules; i++)
        rule(y, k->rules[i].cel, k->rules[i].message);
    if (k->n_rules)
        close_key(y);
    close_key(y);
    close_key(y);
}

static void names(struct yaml *y, const struct api_kind *k)
{
    open_key(y, "names");
    line(y, "kind", k->kind);
    bytes_addf(y->out, "%*slistKind: %sList\n", (int)(2 * y->depth), "", k->kind);
    line(y, "plural", k->plural);
    line(y, "singular", k->singular);
    bytes_addf(y->out, "%*sshortNames: [%s]\n", (int)(2 * y->depth), "", k->short_name);
    line(y, "categories", "[sampan]");
    close_key(y);
}

void api_crd(const struct api_kind *k, struct bytes *out)
{
    struct yaml y = {.out = out};
    bytes_add_str(out, "# Made from the tables in common/api: `make crd` writes it anew.\n");
    line(&y, "apiVersion", "apiextensions.k8s.io/v1");
    line(&y, "kind", "CustomResourceDefinition");
    open_key(&y, "metadata");
    bytes_addf(out, "  name: %s.%s\n", k->plural, k->group);
    close_key(&y);
    open_key(&y, "spec");
    line(&y, "group", k->group);
    line(&y, "scope", "Namespaced");
    names(&y, k);
    open_key(&y, "versions");
    open_item(&y, "name", k->version);
    line(&y, "served", "true");
    line(&y, "storage", "true");
    columns(&y, k);
    line(&y, "subresources", "{status: {}}");
    top_level(&y, k);
}
