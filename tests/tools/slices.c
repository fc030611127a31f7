/*
 * slices: random preads of big files that stay open, as loaders of sharded sets do.
 *
 *   slices THREADS SLICE_BYTES SLICES SEED FILE…
 *
 * Prints one JSON object: slices, seconds, slices_per_s, bytes_per_s, errors.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct file {
    int fd;
    uint64_t size;
};

struct job {
    pthread_t thread;
    const struct file *files;
    size_t n_files, slice, n;
    uint64_t seed, errors;
};

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static void *run(void *arg)
{
    struct job *j = arg;
    char *into = malloc(j->slice);

    for (size_t i = 0; into && i < j->n; i++) {
        const struct file *f = &j->files[next_random(&j->seed) % j->n_files];
        uint64_t room = f->size > j->slice ? f->size - j->slice : 1;
        ssize_t got = pread(f->fd, into, j->slice, (off_t)(next_random(&j->seed) % room));
        if (got != (ssize_t)j->slice)
            j->errors++;
    }
    free(into);
    return NULL;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "slices THREADS SLICE_BYTES SLICES SEED FILE...\n");
        return 2;
    }
    size_t threads = strtoul(argv[1], NULL, 10), slice = strtoul(argv[2], NULL, 10);
    size_t total = strtoul(argv[3], NULL, 10), n_files = (size_t)argc - 5;
    struct file *files = calloc(n_files, sizeof(*files));
    struct job *jobs = calloc(threads ? threads : 1, sizeof(*jobs));
    uint64_t errors = 0;

    for (size_t i = 0; i < n_files; i++) {
        struct stat st;
        files[i].fd = open(argv[5 + i], O_RDONLY);
        if (files[i].fd < 0 || fstat(files[i].fd, &st)) {
            perror(argv[5 + i]);
            return 1;
        }
        files[i].size = (uint64_t)st.st_size;
    }
    double began = now_s();
    for (size_t i = 0; i < threads; i++) {
        jobs[i] = (struct job){.files = files,
                               .n_files = n_files,
                               .slice = slice,
                               .n = total / threads,
                               .seed = (strtoull(argv[4], NULL, 10) + 1) * 2654435761u + i + 1};
        pthread_create(&jobs[i].thread, NULL, run, &jobs[i]);
    }
    for (size_t i = 0; i < threads; i++) {
        pthread_join(jobs[i].thread, NULL);
        errors += jobs[i].errors;
    }
    double took = now_s() - began, done = (double)(total / threads * threads);

    printf("{\"slices\":%.0f,\"seconds\":%.6f,\"slices_per_s\":%.1f,\"bytes_per_s\":%.0f,"
           "\"errors\":%llu}\n",
           done, took, done / took, done * (double)slice / took, (unsigned long long)errors);
    free(jobs);
    free(files);
    return errors != 0;
}
