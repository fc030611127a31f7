/* GET /v1/catalog/DIGEST: a version's file, for mounts that do not list the source themselves. */
#include <microhttpd.h>
#include <string.h>

#include "control.h"
#include "mem.h"
#include "server-internal.h"

static int find_catalog(struct server *s, const char *version, int *ret_fd, struct json_doc **ret,
                        struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    struct json_writer w;
    jw_init(&w, &request);
    jw_object(&w, NULL);
    jw_str(&w, "op", "catalog");
    if (strcmp(version, "current") != 0)
        jw_str(&w, "version", version);
    jw_end(&w);
    err_set(err, ERR_NOT_FOUND, "this server serves no mount");
    for (size_t i = 0; i < s->conf.n_mounts; i++) {
        cleanup_json struct json_doc *pong = NULL;
        struct control_mount m;
        if (mount_look(s->mounts[i], "ping", &pong, err) || control_find(s->mounts[i], &m, err))
            return -1;
        int rc = control_call(m.socket, &request, NULL, NULL, ret, ret_fd, err);
        control_mount_release(&m);
        if (rc == 0 || err->class != ERR_NOT_FOUND)
            return rc;
    }
    return -1;
}

/* The file as it lies there: it never changes, so its name is a strong ETag. */
void serve_catalog(struct request *r, struct answer *a)
{
    cleanup_json struct json_doc *doc = NULL;
    cleanup_close int fd = -1;
    struct err err = {0};
    const char *version, *ids, *had = request_header(r, MHD_HTTP_HEADER_IF_NONE_MATCH);
    if (find_catalog(r->server, r->id, &fd, &doc, &err)) {
        answer_error(a, &err);
        return;
    }
    struct json root = json_root(doc);
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0 || json_str(&root, "version", &version, &err) ||
        json_str(&root, "ids", &ids, &err)) {
        a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
        return;
    }
    cleanup_free char *etag = xasprintf("\"%s-%s\"", version, ids);
    bool same = had && strcmp(had, etag) == 0;
    struct MHD_Response *response =
        same ? MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT)
             : MHD_create_response_from_fd_at_offset64((uint64_t)size, fd, 0);
    if (!response) {
        a->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        return;
    }
    if (!same)
        take_fd(&fd); /* the response's now */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/vnd.sqlite3");
    MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, etag);
    MHD_queue_response(r->connection, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    a->status = 0;
}
