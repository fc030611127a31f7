/*
 * Keys that come with a job: {"accessKeyId","secretAccessKey"[,"sessionToken"]}. They are taken out
 * of the options when these are checked, live in memory alone (jobs.h), and no answer, row, log or
 * error text holds them.
 */
#include <string.h>

#include "mem.h"
#include "server-internal.h"

void job_keys_release(struct job_keys *k)
{
    json_doc_free(k->doc);
    *k = (struct job_keys){0};
}

static int read_keys(const struct json *o, struct store_keys *ret, struct err *err)
{
    static const char *const known[] = {"accessKeyId", "secretAccessKey", "sessionToken", NULL};
    const char *values[3];
    if (json_want_object(o, err) || json_only_keys(o, known, err) ||
        json_str(o, known[0], &values[0], err) || json_str(o, known[1], &values[1], err) ||
        json_str_or(o, known[2], "", &values[2], err))
        return -1;
    for (int i = 0; i < 2; i++)
        if (!*values[i])
            return err_set(err, ERR_USAGE, "options.%s.%s: it is empty", o->key, known[i]);
    *ret = (struct store_keys){values[0], values[1], *values[2] ? values[2] : NULL};
    return 0;
}

/* A job as it is shown, posted again. */
static bool is_mask(const struct json *given)
{
    const char *text;
    return json_as_str(given, &text, NULL) == 0 && strcmp(text, SECRET_MASK) == 0;
}

int secrets_take(const struct json *o, const char *const *names, struct json_writer *w,
                 struct bytes *secret, struct err *err)
{
    struct json_writer s;
    bool any = false;
    for (; *names; names++) {
        struct store_keys keys = {0};
        if (!json_has(o, *names))
            continue;
        struct json given = json_get(o, *names);
        if (is_mask(&given)) {
            jw_str(w, *names, SECRET_MASK);
            continue;
        }
        if (read_keys(&given, &keys, err))
            return -1;
        if (!any) {
            jw_init(&s, secret);
            jw_object(&s, NULL);
        }
        any = true;
        jw_object(&s, *names);
        jw_str(&s, "accessKeyId", keys.access_key);
        jw_str(&s, "secretAccessKey", keys.secret_key);
        if (keys.session_token)
            jw_str(&s, "sessionToken", keys.session_token);
        jw_end(&s);
        jw_str(w, *names, SECRET_MASK);
    }
    if (any)
        jw_end(&s);
    return 0;
}

int secrets_read(const struct json *o, const char *secret, const char *name, struct job_keys *ret,
                 const struct store_keys **ret_keys, struct err *err)
{
    *ret_keys = NULL;
    if (!json_has(o, name))
        return 0;
    if (!secret)
        return err_set(err, ERR_DENIED,
                       "options.%s: the mask of keys is no key (submit the job with the keys)",
                       name);
    if (json_parse(&ret->doc, "credentials", secret, strlen(secret), err))
        return -1;
    struct json root = json_root(ret->doc), keys = json_get(&root, name);
    if (!json_has(&root, name))
        return 0;
    if (read_keys(&keys, &ret->keys, err))
        return -1;
    *ret_keys = &ret->keys;
    return 0;
}
