/* Whole answers. */
#include "http-reply.h"

#include <stdint.h>
#include <string.h>

bool http_reads(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

enum MHD_Result http_reply(struct MHD_Connection *c, unsigned status, const char *type,
                           const void *data, size_t len, const struct reply_header *more)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(
        len, (void *)(uintptr_t)(len ? data : ""), MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (; more && more->name; more++)
        if (more->value)
            MHD_add_response_header(r, more->name, more->value);
    enum MHD_Result result = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return result;
}

const struct page_file *page_find(const struct page_file *files, const char *path)
{
    while (files->path && strcmp(files->path, path) != 0)
        files++;
    return files->path ? files : NULL;
}
