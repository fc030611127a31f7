/* Copies of programs: what they are linked with is asked of the dynamic linker itself. */
#include "programs.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "dir.h"
#include "file.h"
#include "hash.h"
#include "mem.h"
#include "spawn.h"
#include "state.h"

#define PROGRAM_MAX (256u << 20)
#define LIST_NS     (30 * NS_PER_S)

#ifndef SAMPAN_VERSION
#define SAMPAN_VERSION "dev"
#endif

/* --- the interpreter -------------------------------------------------------------------------- */

/* The program header of the interpreter, or NULL. Nothing in the bytes is believed before. */
static Elf64_Phdr *interpreter_header(const struct bytes *data)
{
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)data->data;
    if (data->len < sizeof *e || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
        e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_phentsize != sizeof(Elf64_Phdr) ||
        e->e_phoff % _Alignof(Elf64_Phdr) || e->e_phoff > data->len ||
        (data->len - e->e_phoff) / sizeof(Elf64_Phdr) < e->e_phnum)
        return NULL;
    Elf64_Phdr *p = (Elf64_Phdr *)(data->data + e->e_phoff);
    for (int i = 0; i < e->e_phnum; i++)
        if (p[i].p_type == PT_INTERP)
            return &p[i];
    return NULL;
}

const char *elf_interpreter(const struct bytes *data)
{
    const Elf64_Phdr *p = interpreter_header(data);
    if (!p || p->p_filesz == 0 || p->p_offset > data->len ||
        data->len - p->p_offset < p->p_filesz || data->data[p->p_offset + p->p_filesz - 1])
        return NULL;
    return data->data + p->p_offset;
}

/* The kernel reads the path where the header says; it need not lie in a part that is loaded. */
int elf_set_interpreter(struct bytes *data, const char *path, struct err *err)
{
    uint64_t at = data->len;
    if (!interpreter_header(data) || strlen(path) >= PATH_MAX)
        return err_set(err, ERR_CORRUPT, "it is no dynamically linked 64-bit program");
    bytes_add(data, path, strlen(path) + 1);
    Elf64_Phdr *p = interpreter_header(data);
    p->p_offset = at;
    p->p_filesz = p->p_memsz = strlen(path) + 1;
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static int read_whole(const char *path, struct bytes *ret, struct err *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "read %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)PROGRAM_MAX)
        return err_set(err, ERR_FAILED, "read %s: it is no program", path);
    bytes_reserve(ret, (size_t)st.st_size + 1);
    ssize_t n = file_read(fd, ret->data, (size_t)st.st_size, 0);
    if (n != st.st_size)
        return err_sys(err, n < 0 ? errno : EIO, "read %s", path);
    ret->len = (size_t)n;
    return 0;
}

static int copy_file(const char *from, const char *to, struct err *err)
{
    cleanup_bytes struct bytes data = {0};
    if (read_whole(from, &data, err))
        return -1;
    return file_write_whole(to, data.data, data.len, 0755, err);
}

/* --- libraries -------------------------------------------------------------------------------- */

/* "libx.so.1 => /path/libx.so.1 (0x…)": the path is in `ret`. The kernel's own page has none. */
static bool library_of(const char *line, size_t len, char ret[PATH_MAX])
{
    const char *arrow = memmem(line, len, "=> /", 4);
    if (!arrow)
        return false;
    const char *path = arrow + 3;
    size_t n = strcspn(path, " \n");
    if (n >= PATH_MAX)
        return false;
    snprintf(ret, PATH_MAX, "%.*s", (int)n, path);
    return true;
}

static int copy_libraries(const char *interpreter, const char *sampan, const char *folder,
                          struct err *err)
{
    const char *const argv[] = {interpreter, "--list", sampan, NULL};
    struct spawn s = {.program = interpreter,
                      .argv = argv,
                      .host_root = "",
                      .deadline_ns = clock_mono_ns() + LIST_NS};
    cleanup_bytes struct bytes out = {0}, errors = {0};
    char path[PATH_MAX];
    int code = 0;
    if (spawn_run(&s, &code, &out, &errors, err))
        return -1;
    if (code || !out.len)
        return err_set(err, ERR_FAILED, "%s --list %s: it told no libraries", interpreter, sampan);
    for (const char *line = out.data, *end; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        size_t len = end ? (size_t)(end - line) : strlen(line);
        if (!library_of(line, len, path))
            continue;
        cleanup_free char *to = xasprintf("%s/%s", folder, strrchr(path, '/') + 1);
        if (copy_file(path, to, err))
            return -1;
    }
    return 0;
}

/* --- a copy ----------------------------------------------------------------------------------- */

/* Beside the program, or where `make install` puts it. */
static char *keeper_of(const char *sampan)
{
    char *beside = xasprintf("%s-keeper", sampan);
    if (access(beside, X_OK) == 0)
        return beside;
    free(beside);
    return xasprintf("%.*s/../libexec/sampan/sampan-keeper", (int)(strrchr(sampan, '/') - sampan),
                     sampan);
}

static int fill_folder(const char *sampan, const struct bytes *program, const char *folder,
                       const char *final, struct err *err)
{
    const char *interpreter = elf_interpreter(program);
    cleanup_free char *lib = xasprintf("%s/lib", folder), *to = xasprintf("%s/sampan", folder);
    cleanup_free char *ld = xasprintf("%s/ld.so", folder), *ld_final = xasprintf("%s/ld.so", final);
    cleanup_free char *keeper = keeper_of(sampan);
    cleanup_free char *keeper_to = xasprintf("%s/sampan-keeper", folder);
    cleanup_bytes struct bytes changed = {0};
    if (folder_make(lib, err) || copy_file(keeper, keeper_to, err))
        return -1;
    if (!interpreter) /* static: it needs nobody */
        return file_write_whole(to, program->data, program->len, 0755, err);
    bytes_add(&changed, program->data, program->len);
    if (copy_libraries(interpreter, sampan, lib, err) || copy_file(interpreter, ld, err) ||
        elf_set_interpreter(&changed, ld_final, err))
        return -1;
    return file_write_whole(to, changed.data, changed.len, 0755, err);
}

static void remove_tree(const char *path)
{
    cleanup_dir DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = dir_next(d));) {
        cleanup_free char *below = xasprintf("%s/%s", path, e->d_name);
        if (unlink(below))
            remove_tree(below);
    }
    rmdir(path);
}

/* A copy that has its `sampan` is whole: that comes last, and goes first. */
static void remove_copy(const char *folder)
{
    cleanup_free char *program = xasprintf("%s/sampan", folder);
    if (unlink(program) == 0 || errno == ENOENT)
        remove_tree(folder);
}

int programs_copy(const char *sampan, const char *state, char **ret_path, struct err *err)
{
    cleanup_bytes struct bytes program = {0};
    if (read_whole(sampan, &program, err))
        return -1;
    cleanup_free char *bin = xasprintf("%s/bin", state);
    cleanup_free char *final =
        xasprintf("%s/%s-%016" PRIx64, bin, SAMPAN_VERSION, hash64(program.data, program.len, 0));
    cleanup_free char *path = xasprintf("%s/sampan", final), *aside = xasprintf("%s.new", final);
    if (access(path, X_OK)) {
        remove_tree(aside); /* of a start that was cut off */
        if (folder_make(bin, err) || folder_make(aside, err) ||
            fill_folder(sampan, &program, aside, final, err))
            return err_wrap(err, "copy the programs to the host");
        remove_copy(final); /* what is left of one whose removal was cut off */
        if (rename(aside, final))
            return err_sys(err, errno, "copy the programs to %s", final);
    }
    *ret_path = take_ptr(&path);
    return 0;
}

/* Whether some process runs a program of that folder. */
static bool is_run(const char *folder)
{
    char exe[PATH_MAX];
    size_t n = strlen(folder);
    cleanup_dir DIR *d = opendir("/proc");
    for (const struct dirent *e; d && (e = dir_next(d));) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        cleanup_free char *link = xasprintf("/proc/%s/exe", e->d_name);
        ssize_t len = readlink(link, exe, sizeof exe - 1);
        if (len < 0)
            continue;
        exe[len] = '\0';
        if (strncmp(exe, folder, n) == 0 && exe[n] == '/')
            return true;
    }
    return false;
}

void programs_clean(const char *state, const char *current)
{
    cleanup_free char *bin = xasprintf("%s/bin", state);
    cleanup_dir DIR *d = opendir(bin);
    for (const struct dirent *e; d && (e = dir_next(d));) {
        if (e->d_name[0] == '.')
            continue;
        cleanup_free char *folder = xasprintf("%s/%s", bin, e->d_name);
        size_t n = strlen(folder);
        if ((strncmp(current, folder, n) == 0 && current[n] == '/') || is_run(folder))
            continue;
        remove_copy(folder);
    }
}
