/* Credentials that a machine offers: the instance's metadata service (IMDSv2) and the endpoint of
 * an ECS or EKS container. Short timeouts: on most machines nobody answers. */
#include "creds-internal.h"

#include <string.h>

#include "clock.h"
#include "json.h"
#include "mem.h"
#include "object-internal.h"

#define META_CONNECT  (1 * NS_PER_S)
#define META_TIMEOUT  (3 * NS_PER_S)
#define META_BODY_MAX (64u << 10)
#define IMDS_DEFAULT  "http://169.254.169.254"
#define ECS_HOST      "http://169.254.170.2"

int metadata_parse(struct creds *ret, const char *what, const void *body, size_t len,
                   struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, what, body, len, err))
        return -1;
    struct json root = json_root(doc);
    const char *code, *access, *secret, *token, *expires;
    if (json_str_or(&root, "Code", "Success", &code, err))
        return -1;
    if (strcmp(code, "Success") != 0)
        return err_set(err, ERR_DENIED, "no credentials: %s says %.60s (check the machine's role)",
                       what, code);
    if (json_str(&root, "AccessKeyId", &access, err) ||
        json_str(&root, "SecretAccessKey", &secret, err) ||
        json_str_or(&root, "Token", "", &token, err) ||
        json_str_or(&root, "Expiration", "", &expires, err))
        return -1;
    int64_t ns = parse_iso8601_ns(expires);
    ret->expire_ns = ns > 0 ? (uint64_t)ns : 0;
    creds_set(ret, access, secret, token);
    ret->from = what;
    return 0;
}

/* A GET (or the PUT for a token) that never goes through a proxy. */
static int ask(enum http_method method, const char *url, const char *header, const char *value,
               struct http_answer *a, struct bytes *body, struct err *err)
{
    static const struct http_peer peer = {.proxy = "", .connect_timeout_ns = META_CONNECT};
    cleanup_http_req struct http_req r;
    http_req_init(&r, method);
    bytes_add_str(&r.url, url);
    if (header)
        http_header(&r, header, "%s", value);
    return http_do(&r, &peer, META_TIMEOUT, META_BODY_MAX, a, body, err);
}

static char *first_line(const struct bytes *body)
{
    const char *text = body->data ? body->data : "";
    return xstrndup(text, strcspn(text, "\r\n"));
}

/* 1, 0 or -1. */
static int ask_imds(struct creds *ret, const char *base, struct err *err)
{
    static const char what[] = "the instance's metadata service";
    struct http_answer a;
    cleanup_wiped struct bytes body = {0};
    cleanup_free char *token_url = xasprintf("%s/latest/api/token", base);
    cleanup_free char *list_url = xasprintf("%s/latest/meta-data/iam/security-credentials/", base);
    if (ask(HTTP_PUT, token_url, "X-aws-ec2-metadata-token-ttl-seconds", "21600", &a, &body,
            NULL) ||
        a.status != 200)
        return 0; /* nobody there, or nothing that speaks version 2 */
    cleanup_free char *token = first_line(&body);
    static const char header[] = "X-aws-ec2-metadata-token";
    if (ask(HTTP_GET, list_url, header, token, &a, &body, err))
        return err_wrap(err, "%s", what);
    cleanup_free char *role = first_line(&body);
    if (a.status == 404 || !*role)
        return 0; /* an instance without a role */
    if (a.status != 200)
        return err_set(err, ERR_TRANSIENT, "no credentials: %s: status %d", what, a.status);
    cleanup_bytes struct bytes role_url = {0};
    bytes_add_str(&role_url, list_url);
    url_add_path(&role_url, role, strlen(role));
    if (ask(HTTP_GET, role_url.data, header, token, &a, &body, err))
        return err_wrap(err, "%s", what);
    if (a.status != 200)
        return err_set(err, ERR_TRANSIENT, "no credentials: %s: status %d for the role", what,
                       a.status);
    return metadata_parse(ret, what, body.data, body.len, err) ? -1 : 1;
}

int creds_from_instance(struct creds *ret, const struct creds_conf *conf, struct err *err)
{
    (void)conf;
    const char *off = env_get("AWS_EC2_METADATA_DISABLED");
    if (off && strcasecmp(off, "true") == 0)
        return 0;
    const char *base = env_get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    cleanup_free char *bare = xstrdup(base ? base : IMDS_DEFAULT);
    size_t len = strlen(bare);
    while (len && bare[len - 1] == '/')
        bare[--len] = '\0';
    return ask_imds(ret, bare, err);
}

int creds_from_container(struct creds *ret, const struct creds_conf *conf, struct err *err)
{
    (void)conf;
    static const char what[] = "the container's endpoint";
    const char *relative = env_get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = env_get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (!relative && !full)
        return 0;
    cleanup_free char *url = relative ? xasprintf("%s%s", ECS_HOST, relative) : xstrdup(full);
    cleanup_wiped struct bytes token = {0}, body = {0};
    const char *file = env_get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if (file && read_small_file(file, &token, NULL, err))
        return err_wrap(err, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if (!file && env_get("AWS_CONTAINER_AUTHORIZATION_TOKEN"))
        bytes_add_str(&token, env_get("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
    while (token.len && (token.data[token.len - 1] == '\n' || token.data[token.len - 1] == ' '))
        token.data[--token.len] = '\0';
    struct http_answer a;
    int result = ask(HTTP_GET, url, token.len ? "Authorization" : NULL, token.data, &a, &body, err);
    if (result)
        err_wrap(err, "%s", what);
    else if (a.status != 200)
        result = err_set(err, a.status >= 500 ? ERR_TRANSIENT : ERR_DENIED,
                         "no credentials: %s: status %d (check the task's role)", what, a.status);
    else
        result = metadata_parse(ret, what, body.data, body.len, err);
    return result ? -1 : 1;
}
