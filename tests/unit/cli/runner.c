/* The library under test holds the program's own main(), so the test program brings one that wins.
 */
#ifndef __SANITIZE_THREAD__ /* there the plain runner brings it */
#include <criterion/criterion.h>

int main(int argc, char **argv)
{
    struct criterion_test_set *tests = criterion_initialize();
    int result = 0;
    if (criterion_handle_args(argc, argv, true))
        result = !criterion_run_all_tests(tests);
    criterion_finalize(tests);
    return result;
}
#endif
