/* Credentials by taking a role: AssumeRole and AssumeRoleWithWebIdentity of STS. */
#include "creds-internal.h"

#include <string.h>

#include "clock.h"
#include "list-xml-internal.h"
#include "hash.h"
#include "mem.h"
#include "object-internal.h"

#define STS_TIMEOUT  (10 * NS_PER_S)
#define STS_BODY_MAX (256u << 10)

static char *sts_endpoint(const char *region)
{
    const char *env = env_get("AWS_ENDPOINT_URL_STS");
    env = env ? env : env_get("AWS_ENDPOINT_URL");
    cleanup_bytes struct bytes own = {0};
    if (!env && profile_endpoint("sts", &own))
        env = own.data;
    if (env)
        return xasprintf("%s%s", env, env[strlen(env) - 1] == '/' ? "" : "/");
    bool china = strncmp(region, "cn-", 3) == 0;
    return xasprintf("https://sts.%s.amazonaws.com%s/", region, china ? ".cn" : "");
}

/* As forms are encoded: a blank is '+'. */
static void add_form(struct bytes *body, const char *name, const char *value)
{
    bytes_addf(body, "%s%s=", body->len ? "&" : "", name);
    for (; *value; value++) {
        if (*value == ' ')
            bytes_add_char(body, '+');
        else
            url_encode(body, value, 1, false);
    }
}

static void build_form(struct bytes *body, const struct role *role, const char *web_token)
{
    add_form(body, "Action", web_token ? "AssumeRoleWithWebIdentity" : "AssumeRole");
    add_form(body, "Version", "2011-06-15");
    add_form(body, "RoleArn", role->arn);
    add_form(body, "RoleSessionName", role->session);
    if (role->duration_s)
        bytes_addf(body, "&DurationSeconds=%u", role->duration_s);
    if (role->external_id && !web_token)
        add_form(body, "ExternalId", role->external_id);
    if (web_token)
        add_form(body, "WebIdentityToken", web_token);
}

int sts_parse(struct creds *ret, const void *body, size_t len, struct err *err)
{
    cleanup_bytes struct bytes access = {0}, expires = {0};
    cleanup_wiped struct bytes secret = {0}, token = {0};
    if (!xml_find(body, len, "AccessKeyId", &access) ||
        !xml_find(body, len, "SecretAccessKey", &secret) || !access.len || !secret.len)
        return err_set(err, ERR_CORRUPT,
                       "take a role: the answer has no keys (is this STS? check "
                       "AWS_ENDPOINT_URL_STS)");
    xml_find(body, len, "SessionToken", &token);
    if (xml_find(body, len, "Expiration", &expires)) {
        int64_t ns = parse_iso8601_ns(expires.data);
        ret->expire_ns = ns > 0 ? (uint64_t)ns : 0;
    }
    creds_set(ret, access.data, secret.data, token.data);
    ret->from = "a role taken at STS";
    return 0;
}

static int sts_refused(const struct role *role, int status, const struct bytes *body,
                       struct err *err)
{
    cleanup_bytes struct bytes code = {0}, message = {0};
    char words[200] = "";
    xml_find(body->data, body->len, "Code", &code);
    if (xml_find(body->data, body->len, "Message", &message))
        tame(words, sizeof words, message.data, message.len);
    enum err_class class = status >= 500 || status == 429 ? ERR_TRANSIENT : ERR_DENIED;
    return err_set(
        err, class,
        "take a role: %s: %d %s: %s (check the role's trust policy and the source's credentials)",
        role->arn, status, code.data ? code.data : "", words);
}

/* `by`: whose keys sign the question, dated `now_s`; NULL: a token in the form proves who asks. */
static int ask(const struct role *role, const struct creds *by, int64_t now_s,
               const struct bytes *form, const struct http_peer *peer, struct http_answer *a,
               struct bytes *body, struct err *err)
{
    const char *region = role->region ? role->region : "us-east-1";
    cleanup_free char *url = sts_endpoint(region);
    cleanup_http_req struct http_req r;
    http_req_init(&r, HTTP_POST);
    bytes_add_str(&r.url, url);
    http_header(&r, "Content-Type", "application/x-www-form-urlencoded");
    r.body = form->data;
    r.body_len = form->len;
    if (by) {
        char digest[2 * SHA256_LEN + 1];
        sha256_hex(digest, form->data, form->len);
        struct v4_params p = {.access_key = by->access_key,
                              .secret = &by->secret,
                              .token = &by->token,
                              .region = region,
                              .service = "sts",
                              .now_s = now_s,
                              .payload = digest};
        v4_sign(&r, &p);
    }
    return http_do(&r, peer, STS_TIMEOUT, STS_BODY_MAX, a, body, err);
}

int sts_assume(struct creds *ret, const struct role *role, const struct creds *by,
               const char *web_token, const struct http_peer *peer, struct err *err)
{
    cleanup_wiped struct bytes form = {0}, body = {0}; /* the form may hold the token */
    build_form(&form, role, web_token);
    struct http_answer a;
    int64_t now = clock_wall_ns() / (int64_t)NS_PER_S;
    int result = ask(role, by, now, &form, peer, &a, &body, err);
    /* A signature of another time is refused; the refusal says what time it is there. */
    bool refused = result == 0 && by && a.status / 100 == 4 && a.date[0];
    time_t theirs = refused ? curl_getdate(a.date, NULL) : -1;
    if (theirs != -1 && is_skewed((int64_t)theirs - now))
        result = ask(role, by, theirs, &form, peer, &a, &body, err);
    if (result)
        err_wrap(err, "take a role: %s", role->arn);
    else if (a.status != 200)
        result = sts_refused(role, a.status, &body, err);
    else
        result = sts_parse(ret, body.data, body.len, err);
    return result;
}

int creds_from_web_identity(struct creds *ret, const struct creds_conf *conf, struct err *err)
{
    const char *file = env_get("AWS_WEB_IDENTITY_TOKEN_FILE");
    const char *arn = env_get("AWS_ROLE_ARN");
    if (!file || !arn)
        return 0;
    cleanup_wiped struct bytes token = {0};
    if (read_small_file(file, &token, NULL, err))
        return err_wrap(err, "AWS_WEB_IDENTITY_TOKEN_FILE");
    while (token.len && (token.data[token.len - 1] == '\n' || token.data[token.len - 1] == ' '))
        token.data[--token.len] = '\0';
    const char *session = env_get("AWS_ROLE_SESSION_NAME");
    const char *region = conf->region ? conf->region : env_get("AWS_REGION");
    struct role role = {.arn = arn,
                        .session = session ? session : "sampan",
                        .region = region ? region : env_get("AWS_DEFAULT_REGION")};
    return sts_assume(ret, &role, NULL, token.data ? token.data : "", conf->peer, err) ? -1 : 1;
}
