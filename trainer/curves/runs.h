/*
 * Runs: the folders at and below --log_dir that hold files of events or a model (*.onnx), and what
 * stands in them. All are looked for when they are listed, or when one is asked for that is not
 * known; of one that is, its own folder is looked at. Who asks for one has its own files read on.
 *
 * A file is read once, each time on from where it was left. What is kept of a tag is at most
 * POINTS_KEPT points, evenly over all that came, and the newest: of an image or a histogram its
 * place in the file, where it is read again by whoever asks for it. A file that has become shorter
 * or another one has its run read anew. Links to folders are not followed. All functions may be
 * called from any thread: the first reading of a long file keeps those waiting who ask for the same
 * run, and a list says of it what has been read so far.
 */
#ifndef SAMPAN_CURVES_RUNS_H
#define SAMPAN_CURVES_RUNS_H

#include "buf.h"
#include "err.h"

#define POINTS_KEPT 1000
#define TAGS_MAX    5000 /* of a run */
#define RUNS_MAX    500
#define BARS_SHOWN  24 /* histograms, or curves, of a tag in one answer */

struct runs;
struct runs *runs_new(const char *dir);
void runs_free(struct runs *r); /* NULL is fine */

/* Each appends one JSON text. An error is ERR_NOT_FOUND where there is no such run or tag. */

/* {"runs":[{"run","bytes","damaged","scalars":[TAG…],"histograms":[TAG…],"pr":[TAG…],"images":[TAG…],"audio":[TAG…],"graph"}]}
 * By name; the folder itself is "."; "bytes" grows when something is new; "damaged" says where, or
 * is null. */
int runs_list(struct runs *r, struct bytes *out, struct err *err);
/* {TAG:[[STEP,TIME,VALUE]…]…} */
int runs_scalars(struct runs *r, const char *run, struct bytes *out, struct err *err);
/* [{"step","edges":[…],"counts":[…]}…] */
int runs_histograms(struct runs *r, const char *run, const char *tag, struct bytes *out,
                    struct err *err);
/* [{"step","recall":[…],"precision":[…]}…], by threshold */
int runs_pr(struct runs *r, const char *run, const char *tag, struct bytes *out, struct err *err);
/* [[STEP,TIME,PLACE]…]; what runs_image() and runs_clip() take */
int runs_images(struct runs *r, const char *run, const char *tag, struct bytes *out,
                struct err *err);
int runs_audio(struct runs *r, const char *run, const char *tag, struct bytes *out,
               struct err *err);
/* The picture, the sound itself; *type is its media type. */
int runs_image(struct runs *r, const char *run, const char *tag, const char *place,
               struct bytes *out, const char **type, struct err *err);
int runs_clip(struct runs *r, const char *run, const char *tag, const char *place,
              struct bytes *out, const char **type, struct err *err);
/* {"nodes":[[NAME,OP,[INPUT…]]…]}: of the run's event files, else of its model, whose nodes also
 * have [OUTPUT…], by which others name them as their input. Where a writer has measured a step
 * (the newest of them): "costs":{"tag","devices":[NAME…],"nodes":[[NAME,DEVICE,MICROSECONDS,BYTES]
 * …]}, DEVICE being a place in that list; a node may be there more than once. */
int runs_graph(struct runs *r, const char *run, struct bytes *out, struct err *err);

#endif
