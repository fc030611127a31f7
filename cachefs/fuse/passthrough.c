/* OPEN and RELEASE */
#include <errno.h>

#include "frontend-internal.h"

void passthrough_start(struct frontend *f)
{
    (void)f;
}
void passthrough_stop(struct frontend *f)
{
    (void)f;
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const struct frontend *f = fuse_req_userdata(req);

    (void)ino;
    if (f->mode.no_open) {
        fuse_reply_err(req, ENOSYS);
        return;
    }
    fi->keep_cache = 1;
    fi->noflush = 1;
    fuse_reply_open(req, fi);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    fuse_reply_err(req, 0);
}
