#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kube.h"
#include "mem.h"

static char *put(const char *folder, const char *name, const char *text)
{
    char *path = xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static char *folder_new(void)
{
    char *folder = xasprintf("/tmp/sampan-kube-%d-XXXXXX", getpid());
    cr_assert(mkdtemp(folder));
    return folder;
}

static void folder_end(char *folder)
{
    static const char *const names[] = {"config", "token", "ca.crt", "namespace", "cert", "key"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = xasprintf("%s/%s", folder, names[i]);
        unlink(path);
        free(path);
    }
    rmdir(folder);
    free(folder);
}

Test(kube_yaml, as_json)
{
    static const struct {
        const char *yaml, *want; /* want NULL: refused */
    } rows[] = {
        {"a: 1\nb: [x, 'y', \"z\"]\n", "{\"a\":\"1\",\"b\":[\"x\",\"y\",\"z\"]}"},
        {"a:\n- b: true\n  c: ~\n- {d: \"true\"}\n",
         "{\"a\":[{\"b\":true,\"c\":null},{\"d\":\"true\"}]}"},
        {"{\"a\": {\"b\": false}}", "{\"a\":{\"b\":false}}"},
        {"a: |\n  one\n  two\n", "{\"a\":\"one\\ntwo\\n\"}"},
        {"a: &x 1\nb: *x\n", NULL},
        {"a: [", NULL},
        {"? [a]\n: b\n", NULL},
        {"", NULL},
        {"# nothing\n", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes json = {0};
        struct err err = {0};
        int result = kube_yaml("x", rows[i].yaml, strlen(rows[i].yaml), &json, &err);
        cr_assert_eq(result, rows[i].want ? 0 : -1, "row %zu: %s", i, err.msg);
        if (rows[i].want)
            cr_assert_str_eq(json.data, rows[i].want, "row %zu: %s", i, json.data);
        bytes_release(&json);
    }
}

static const char two_contexts[] =
    "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
    "contexts:\n"
    "- {name: a, context: {cluster: c, user: by-token}}\n"
    "- {name: b, context: {cluster: d, user: by-cert, namespace: train}}\n"
    "- {name: x, context: {cluster: nowhere, user: by-token}}\n"
    "- {name: e, context: {cluster: c, user: by-exec}}\n"
    "- {name: p, context: {cluster: c, user: by-password}}\n"
    "- {name: h, context: {cluster: c, user: half}}\n"
    "- {name: t, context: {cluster: named, user: by-token}}\n"
    "- {name: anonymous, context: {cluster: d}}\n"
    "clusters:\n"
    "- {name: c, cluster: {server: 'https://10.0.0.1:6443/', certificate-authority-data: Q0E=}}\n"
    "- {name: d, cluster: {server: 'http://localhost:1', insecure-skip-tls-verify: true}}\n"
    "- {name: named, cluster: {server: 'https://h', tls-server-name: other}}\n"
    "users:\n"
    "- {name: by-token, user: {token: ' opensesame '}}\n"
    "- {name: by-cert, user: {client-certificate: cert, client-key-data: S0VZ}}\n"
    "- {name: by-exec, user: {exec: {command: aws}}}\n"
    "- {name: by-password, user: {username: me, password: secret-word}}\n"
    "- {name: half, user: {client-certificate: cert}}\n";

Test(kube_config, contexts)
{
    char *folder = folder_new(), *file = put(folder, "config", two_contexts);
    struct kube_config *c = NULL;
    struct err err = {0};
    free(put(folder, "cert", "CERT"));
    cr_assert_eq(kube_config_file(&c, file, NULL, &err), 0, "%s", err.msg);
    cr_assert_str_eq(c->server, "https://10.0.0.1:6443");
    cr_assert_str_eq(c->namespace_, "default");
    cr_assert_str_eq(c->ca_pem, "CA");
    cr_assert_str_eq(c->token.text, "opensesame");
    cr_assert(!c->cert_pem && !c->key.text && !c->no_verify);
    kube_config_free(c);
    cr_assert_eq(kube_config_file(&c, file, "b", &err), 0, "%s", err.msg);
    cr_assert_str_eq(c->server, "http://localhost:1");
    cr_assert_str_eq(c->namespace_, "train");
    cr_assert_str_eq(c->cert_pem, "CERT");
    cr_assert_str_eq(c->key.text, "KEY");
    cr_assert(c->no_verify && !c->token.text && !c->ca_pem);
    kube_config_free(c);
    cr_assert_eq(kube_config_file(&c, file, "anonymous", &err), 0, "%s", err.msg);
    kube_config_free(c);
    free(file);
    folder_end(folder);
}

Test(kube_config, refusals_say_what_to_do)
{
    static const struct {
        const char *context, *why;
    } rows[] = {
        {"none", "no entry \"none\" in contexts"},
        {"x", "cluster \"nowhere\": no entry \"nowhere\" in clusters"},
        {"e",
         "user \"by-exec\": a program that gets credentials (exec) is not supported (use a token"},
        {"p", "user \"by-password\": a user name with a password is not supported"},
        {"h", "client-certificate and client-key go together"},
        {"t", "cluster \"named\": tls-server-name is not supported"},
    };
    char *folder = folder_new(), *file = put(folder, "config", two_contexts);
    free(put(folder, "cert", "CERT"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kube_config *c = NULL;
        struct err err = {0};
        cr_assert_eq(kube_config_file(&c, file, rows[i].context, &err), -1, "row %zu", i);
        cr_assert(strstr(err.msg, rows[i].why), "row %zu: %s", i, err.msg);
        cr_assert(strstr(err.msg, file), "row %zu: %s", i, err.msg);
        cr_assert(!strstr(err.msg, "secret-word"));
    }
    free(file);
    folder_end(folder);
}

Test(kube_config, a_pod)
{
    char *folder = folder_new();
    struct kube_config *c = NULL;
    struct err err = {0};
    cr_assert_eq(kube_config_pod(&c, folder, "10.96.0.1", "443", &err), -1);
    cr_assert(strstr(err.msg, "service account: "), "%s", err.msg);
    free(put(folder, "token", "t1\n"));
    free(put(folder, "ca.crt", "CA"));
    free(put(folder, "namespace", "sampan-system"));
    cr_assert_eq(kube_config_pod(&c, folder, "fd00::1", NULL, &err), 0, "%s", err.msg);
    cr_assert_str_eq(c->server, "https://[fd00::1]:443");
    cr_assert_str_eq(c->namespace_, "sampan-system");
    cr_assert_str_eq(c->ca_pem, "CA");
    cr_assert(strstr(c->token_file, "/token") && !c->token.text);
    kube_config_free(c);
    folder_end(folder);
}

Test(kube_answer, refusals)
{
    static const struct {
        int status;
        const char *body, *reason, *msg;
        enum err_class class;
    } rows[] = {
        {409, "{\"reason\":\"AlreadyExists\",\"message\":\"x already exists\"}", "AlreadyExists",
         "POST /p: 409 AlreadyExists: x already exists", ERR_STALE},
        {404, "", "", "POST /p: 404", ERR_NOT_FOUND},
        {410, "{\"reason\":\"Expired\"}", "Expired", "POST /p: 410 Expired", ERR_STALE},
        {403, "", "", "POST /p: 403 (see the rights in docs/operator.md)", ERR_DENIED},
        {403,
         "{\"reason\":\"Forbidden\",\"message\":\"User \\\"u\\\" cannot create resource "
         "\\\"pods\\\"\"}",
         "Forbidden",
         "POST /p: 403 Forbidden: User \"u\" cannot create resource \"pods\" (see the rights in "
         "docs/operator.md)",
         ERR_DENIED},
        {403, "{\"reason\":\"Forbidden\",\"message\":\"exceeded quota: q\"}", "Forbidden",
         "POST /p: 403 Forbidden: exceeded quota: q", ERR_DENIED},
        {422, "{\"reason\":5}", "", "POST /p: 422", ERR_USAGE},
        {429, "<html>", "", "POST /p: 429", ERR_TRANSIENT},
        {503, "null", "", "POST /p: 503", ERR_TRANSIENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kube_answer a = {.status = rows[i].status};
        struct err err = {0};
        cr_assert_eq(kube_refusal(&a, "POST /p", rows[i].body, strlen(rows[i].body), &err), -1);
        cr_assert_str_eq(err.msg, rows[i].msg);
        cr_assert_str_eq(a.reason, rows[i].reason);
        cr_assert_eq(err.class, rows[i].class);
    }
}
