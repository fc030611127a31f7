#include <criterion/criterion.h>
#include <string.h>

#include "roff.h"

struct options {
    const char *dir, *shape;
    bool quick;
};
static const struct conf_row rows[] = {
    {"log_dir", CONF_STRING, offsetof(struct options, dir), .arg = "DIR", .dflt = "-",
     .help = "Where a\\b goes"},
    {"shape", CONF_ENUM, offsetof(struct options, shape), .choices = "round|square",
     .help = "Of it"},
    {"q", CONF_FLAG, offsetof(struct options, quick), .help = "Quick"},
};

Test(roff, a_page_is_what_is_read)
{
    struct bytes out = {0};
    roff_begin(&out, "sampan-train ui", "a page -- of curves");
    each_paragraph("First.\n\n.hidden file's\n'quoted'", &out, roff_paragraph);
    cr_expect_str_eq(out.data, ".TH SAMPAN\\-TRAIN\\-UI 1 \"\" \"sampan " SAMPAN_VERSION
                               "\" \"Sampan\"\n.SH NAME\nsampan\\-train\\-ui \\- a page \\-\\- of "
                               "curves\n.PP\nFirst.\n.PP\n\\&.hidden file's\n\\&'quoted'\n");
    bytes_release(&out);
}

Test(roff, options_and_their_variables)
{
    struct bytes out = {0};
    roff_options(&out, rows, 3, true);
    cr_expect_str_eq(out.data,
                     ".SH OPTIONS\n"
                     ".TP\n\\fB\\-\\-log_dir\\fR \\fIDIR\\fR\nWhere a\\eb goes (\\-). Variable "
                     "\\fBSAMPAN_LOG_DIR\\fR.\n"
                     ".TP\n\\fB\\-\\-shape\\fR \\fIround|square\\fR\nOf it. Variable "
                     "\\fBSAMPAN_SHAPE\\fR.\n"
                     ".TP\n\\fB\\-q\\fR\nQuick. Variable \\fBSAMPAN_Q\\fR.\n");
    bytes_clear(&out);
    roff_options(&out, rows, 1, false);
    cr_expect_null(strstr(out.data, "Variable"));
    bytes_clear(&out);
    roff_options(&out, rows, 0, true);
    cr_expect_eq(out.len, 0);
    bytes_release(&out);
}
