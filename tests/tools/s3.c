/*
 * s3: has a verb of tests/lib/s3.py done by the process that serves them (s3.py --serve SOCKET),
 * whose libraries are loaded: in a child of it, with this program's environment, folder and files.
 *
 *   s3 SOCKET VERB ARGS…       exits as the verb does
 *
 * One message: the descriptors 0, 1 and 2, then strings that end with a zero byte: the folder, the
 * number of arguments, the arguments, the environment. The answer is one byte, the exit code.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void tell(FILE *to, const char *text)
{
    fwrite(text, 1, strlen(text) + 1, to);
}

static int send_files(int to)
{
    int files[3] = {0, 1, 2};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof files)];
    } control = {0};
    char mark = '.';
    struct iovec body = {&mark, 1};
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof files);
    memcpy(CMSG_DATA(&control.header), files, sizeof files);
    return sendmsg(to, &message, 0) == 1 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    char folder[PATH_MAX], count[16];
    unsigned char code = 1;
    if (argc < 3 || strlen(argv[1]) >= sizeof where.sun_path || !getcwd(folder, sizeof folder)) {
        fputs("usage: s3 SOCKET VERB ARGS...\n", stderr);
        return 2;
    }
    memcpy(where.sun_path, argv[1], strlen(argv[1]));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&where, sizeof where) || send_files(fd)) {
        perror(argv[1]);
        return 1;
    }
    FILE *to = fdopen(fd, "w");
    snprintf(count, sizeof count, "%d", argc - 2);
    tell(to, folder);
    tell(to, count);
    for (int i = 2; i < argc; i++)
        tell(to, argv[i]);
    for (char **e = environ; *e; e++)
        tell(to, *e);
    fflush(to);
    shutdown(fd, SHUT_WR);
    if (read(fd, &code, 1) != 1)
        fputs("s3: no answer\n", stderr);
    fclose(to);
    return code;
}
