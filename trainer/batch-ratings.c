/*
 * Ratings as MovieLens has them: lines of fields between "::".
 *
 *   users.dat     USER::GENDER::AGE::JOB::ZIP
 *   movies.dat    MOVIE::TITLE (YEAR)::GENRE|GENRE…
 *   ratings.dat   USER::MOVIE::RATING::TIME   (ratings.list, where there is one: a part of them)
 *
 * All is read once, at the start. Ids are rows of embeddings, so that they must not be larger than
 * what a table may hold. Words and genres are numbered by a hash: every rank, with whatever part of
 * the ratings, gives a word the same number.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch-internal.h"
#include "hash.h"
#include "mem.h"

#define ID_MAX     (1 << 24)
#define WORDS      5216
#define GENRES     32
#define JOBS       32
#define FIELDS_MAX 5

struct user {
    int32_t gender, age, job;
    bool known;
};
struct movie {
    int32_t genres[MOVIE_GENRES_MAX], title[MOVIE_TITLE_MAX];
    bool known;
};
struct rating {
    int32_t user, movie;
    float stars;
};

struct ratings {
    struct batches base;
    struct dealer dealer;
    struct user *users;
    struct movie *movies;
    struct rating *all;
    size_t n_users, n_movies, n; /* as long as grow() makes tables */
    int32_t *ids[N_MOVIE_IDS];
    float *targets;
    uint64_t *numbers;
};

/* --- reading ---------------------------------------------------------------------------------- */

/* Cuts a line at "::" in place; how many fields it has. */
static int fields(char *line, char *out[FIELDS_MAX])
{
    int n = 0;
    line[strcspn(line, "\r\n")] = '\0';
    while (n < FIELDS_MAX) {
        out[n++] = line;
        char *end = strstr(line, "::");
        if (!end)
            break;
        *end = '\0';
        line = end + 2;
    }
    return n;
}

static int id_of(const char *text, int32_t *ret)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < 0 || n >= ID_MAX)
        return -1;
    *ret = (int32_t)n;
    return 0;
}

/* Makes `id` a place of a table, the new ones zeroed. Its length is the power of two that the
 * largest id needs, in whatever order they come: embeddings of a checkpoint have as many rows. */
static void *grow(void *table, size_t *n, size_t size, int32_t id)
{
    if ((size_t)id < *n)
        return table;
    size_t more = *n ? *n : 1;
    while (more <= (size_t)id)
        more *= 2;
    char *p = xrealloc(table, more * size);
    memset(p + *n * size, 0, (more - *n) * size);
    *n = more;
    return p;
}

static int32_t age_id(int32_t age)
{
    return age / 8 % 16;
}

static int32_t job_id(int32_t job)
{
    return job % JOBS;
}

static int take_user(struct ratings *r, char **f, int n)
{
    int32_t id, age, job;
    if (n < 4 || id_of(f[0], &id) || id_of(f[2], &age) || id_of(f[3], &job))
        return -1;
    r->users = grow(r->users, &r->n_users, sizeof *r->users, id);
    r->users[id] = (struct user){
        .gender = *f[1] == 'F', .age = age_id(age), .job = job_id(job), .known = true};
    return 0;
}

static void words(char *text, const char *ends, int32_t *out, int max, int rows)
{
    int n = 0;
    char *rest = NULL;
    for (char *w = strtok_r(text, ends, &rest); w && n < max; w = strtok_r(NULL, ends, &rest))
        out[n++] = (int32_t)(hash64(w, strlen(w), 0) % (uint64_t)rows);
    while (n < max)
        out[n++] = -1;
}

void rating_ids(const struct rating_fields *f, int32_t *const ids[N_MOVIE_IDS], size_t at)
{
    ids[MOVIE_USER][at] = f->user;
    ids[MOVIE_GENDER][at] = f->female;
    ids[MOVIE_AGE][at] = age_id(f->age);
    ids[MOVIE_JOB][at] = job_id(f->job);
    ids[MOVIE_ID][at] = f->movie;
    words(f->genres, "|", ids[MOVIE_GENRES] + at * MOVIE_GENRES_MAX, MOVIE_GENRES_MAX, GENRES);
    words(f->title, " ", ids[MOVIE_TITLE] + at * MOVIE_TITLE_MAX, MOVIE_TITLE_MAX, WORDS);
}

static int take_movie(struct ratings *r, char **f, int n)
{
    int32_t id;
    if (n < 3 || id_of(f[0], &id))
        return -1;
    r->movies = grow(r->movies, &r->n_movies, sizeof *r->movies, id);
    struct movie *m = &r->movies[id];
    m->known = true;
    words(f[1], " ", m->title, MOVIE_TITLE_MAX, WORDS);
    words(f[2], "|", m->genres, MOVIE_GENRES_MAX, GENRES);
    return 0;
}

static int take_rating(struct ratings *r, char **f, int n)
{
    struct rating one;
    char *end = NULL;
    if (n < 3 || id_of(f[0], &one.user) || id_of(f[1], &one.movie))
        return -1;
    one.stars = strtof(f[2], &end);
    if (end == f[2] || *end || !(one.stars >= 0 && one.stars <= 10))
        return -1;
    if ((size_t)one.user >= r->n_users || !r->users[one.user].known ||
        (size_t)one.movie >= r->n_movies || !r->movies[one.movie].known)
        return -1;
    if ((r->n & (r->n + 1)) == 0) /* all ones: the room is full */
        r->all = xrealloc(r->all, (2 * r->n + 2) * sizeof *r->all);
    r->all[r->n++] = one;
    return 0;
}

typedef int take_fn(struct ratings *r, char **f, int n);

static int read_file(struct ratings *r, const char *path, take_fn *take, struct err *err)
{
    cleanup_file FILE *file = fopen(path, "re");
    if (!file)
        return err_sys(err, errno, "%s", path);
    cleanup_free char *line = NULL;
    size_t cap = 0, number = 0;
    while (getline(&line, &cap, file) >= 0) {
        char *f[FIELDS_MAX];
        number++;
        if (line[strspn(line, "\r\n")] && take(r, f, fields(line, f)))
            return err_set(err, ERR_CORRUPT,
                           "%s line %zu: no such fields, or a user or movie that the other files "
                           "do not have",
                           path, number);
    }
    return ferror(file) ? err_sys(err, errno ? errno : EIO, "%s", path) : 0;
}

static int read_all(struct ratings *r, const char *dir, struct err *err)
{
    static const struct {
        const char *name;
        take_fn *take;
    } files[] = {{"users.dat", take_user}, {"movies.dat", take_movie}};
    for (int i = 0; i < 2; i++) {
        cleanup_free char *path = xasprintf("%s/%s", dir, files[i].name);
        if (read_file(r, path, files[i].take, err))
            return -1;
    }
    cleanup_free char *part = xasprintf("%s/ratings.list", dir);
    cleanup_free char *whole = xasprintf("%s/ratings.dat", dir);
    return read_file(r, access(part, F_OK) == 0 ? part : whole, take_rating, err);
}

/* --- batches ---------------------------------------------------------------------------------- */

static void put(struct ratings *r, size_t at, const struct rating *one)
{
    const struct user *u = &r->users[one->user];
    const struct movie *m = &r->movies[one->movie];
    r->ids[MOVIE_USER][at] = one->user;
    r->ids[MOVIE_GENDER][at] = u->gender;
    r->ids[MOVIE_AGE][at] = u->age;
    r->ids[MOVIE_JOB][at] = u->job;
    r->ids[MOVIE_ID][at] = one->movie;
    memcpy(r->ids[MOVIE_GENRES] + at * MOVIE_GENRES_MAX, m->genres, sizeof m->genres);
    memcpy(r->ids[MOVIE_TITLE] + at * MOVIE_TITLE_MAX, m->title, sizeof m->title);
    r->targets[at] = one->stars;
}

static int begin(struct batches *b, uint64_t pass, struct err *err)
{
    return dealer_begin(&((struct ratings *)b)->dealer, pass, err);
}

static int next(struct batches *b, struct net_batch *ret, struct err *err)
{
    (void)err;
    struct ratings *r = (struct ratings *)b;
    size_t n = dealer_next(&r->dealer, r->numbers);
    for (size_t i = 0; i < n; i++)
        put(r, i, &r->all[r->numbers[i]]);
    *ret = (struct net_batch){.n = n, .targets = r->targets};
    for (int i = 0; i < N_MOVIE_IDS; i++)
        ret->ids[i] = r->ids[i];
    return n > 0;
}

static int token(struct batches *b, char ret[BATCH_TOKEN_LEN], struct err *err)
{
    return dealer_token(&((struct ratings *)b)->dealer, ret, err);
}

static void figures(struct batches *b, struct batch_figures *ret)
{
    *ret = (struct batch_figures){.left = dealer_batches(&((struct ratings *)b)->dealer)};
}

static void ratings_close(struct batches *b)
{
    struct ratings *r = (struct ratings *)b;
    dealer_release(&r->dealer);
    free(r->users);
    free(r->movies);
    free(r->all);
    for (int i = 0; i < N_MOVIE_IDS; i++)
        free(r->ids[i]);
    free(r->targets);
    free(r->numbers);
    free(r);
}

static const struct batches_ops ops = {begin, next, token, figures,      NULL,
                                       NULL,  NULL, NULL,  ratings_close};

int batch_ratings(struct batches **ret, const struct batch_options *o, struct err *err)
{
    struct ratings *r = xcalloc(1, sizeof *r);
    r->base.ops = &ops;
    int failed = read_all(r, o->data, err) ? err_wrap(err, "%s", batch_option(o))
                                           : dealer_init(&r->dealer, o, r->n, err);
    if (failed) {
        ratings_close(&r->base);
        return -1;
    }
    for (int i = 0; i < N_MOVIE_IDS; i++)
        r->ids[i] = xcalloc(o->batch * MOVIE_TITLE_MAX, sizeof *r->ids[i]);
    r->targets = xcalloc(o->batch, sizeof *r->targets);
    r->numbers = xcalloc(o->batch, sizeof *r->numbers);
    r->base.samples = r->n;
    r->base.digest = hash64(r->all, r->n * sizeof *r->all, 0);
    r->base.pass_batches = dealer_batches(&r->dealer);
    r->base.shape = (struct model_shape){
        .rows = {(int)r->n_users, 2, 16, JOBS, (int)r->n_movies, GENRES, WORDS}};
    *ret = &r->base;
    return 0;
}
