/* The key is the text as it stands in the file, or in the Secret's data. */
#include "key.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "hash.h"
#include "informer.h"
#include "mem.h"
#include "object.h"

#define KEY_MIN   16
#define KEY_BYTES 32

int key_from_file(struct secret *ret, const char *file, struct err *err)
{
    char text[4096] = "";
    cleanup_file FILE *f = fopen(file, "re");
    if (!f)
        return err_sys(err, errno, "--token-key-file: %s", file);
    setbuf(f, NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    size_t n = strcspn(text, "\r\n");
    secret_set(ret, text, n);
    explicit_bzero(text, sizeof text);
    return n >= KEY_MIN
               ? 0
               : err_set(err, ERR_USAGE, "--token-key-file: %s: want %d characters or more", file,
                         KEY_MIN);
}

static int take_key(struct secret *ret, const struct json_doc *doc, const char *name,
                    struct err *err)
{
    struct json root = doc ? json_root(doc) : (struct json){0}, data = json_get(&root, "data");
    const char *key;
    if (json_str(&data, "key", &key, NULL) || strlen(key) < KEY_MIN)
        return err_set(err, ERR_USAGE,
                       "secret %s: no data.key of %d characters or more (delete the secret: a new "
                       "one is made)",
                       name, KEY_MIN);
    secret_set(ret, key, strlen(key));
    return 0;
}

static int make_secret(struct kube_client *client, const char *ns, const char *name,
                       struct json_doc **ret, struct kube_answer *answer, struct err *err)
{
    cleanup_free char *path = kind_path(KIND_SECRET, ns, NULL);
    unsigned char dice[KEY_BYTES];
    char hex[2 * KEY_BYTES + 1];
    struct bytes body = {0};
    struct json_writer w;
    if (getrandom(dice, sizeof dice, 0) != sizeof dice)
        return err_sys(err, errno, "random bytes for the key of tokens");
    hex_encode(hex, dice, sizeof dice);
    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_str(&w, "apiVersion", "v1");
    jw_str(&w, "kind", "Secret");
    jw_object(&w, "metadata");
    jw_str(&w, "name", name);
    jw_str(&w, "namespace", ns);
    jw_object(&w, "labels");
    jw_str(&w, MANAGED_KEY, MANAGED_BY);
    jw_end(&w);
    jw_end(&w);
    jw_object(&w, "stringData");
    jw_str(&w, "key", hex);
    jw_end(&w);
    jw_end(&w);
    const struct kube_request r = {
        .method = HTTP_POST, .path = path, .body = &body, .urgent = true};
    int result = kube_ask(client, &r, ret, answer, err);
    explicit_bzero(dice, sizeof dice);
    explicit_bzero(hex, sizeof hex);
    bytes_wipe(&body);
    return result;
}

/* Two operators may make it at once: the second finds the first one's. */
int key_from_secret(struct secret *ret, struct kube_client *client, const char *ns,
                    const char *name, struct err *err)
{
    cleanup_free char *path = kind_path(KIND_SECRET, ns, name);
    cleanup_json struct json_doc *doc = NULL;
    struct kube_answer answer = {0};
    const struct kube_request get = {.method = HTTP_GET, .path = path, .urgent = true};
    int result = kube_ask(client, &get, &doc, &answer, err);
    if (result && answer.status == 404) {
        result = make_secret(client, ns, name, &doc, &answer, err);
        if (result && answer.status == 409)
            result = kube_ask(client, &get, &doc, &answer, err);
    }
    return result ? -1 : take_key(ret, doc, name, err);
}
