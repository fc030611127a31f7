/* The files of the page, which are part of the program. */
#include <string.h>

#include "curves-internal.h"

#define PAGE_FOLDER "trainer/curves/page/"

/* The bytes of a file, between `name` and `name_end`. */
#define PAGE_FILE(name, file)                                                                   \
    extern const char name[], name##_end[];                                                     \
    __asm__(".pushsection .rodata\n"                                                            \
            ".global " #name "\n.global " #name "_end\n" #name ":\n.incbin \"" PAGE_FOLDER file \
            "\"\n" #name "_end:\n.byte 0\n.popsection\n")

PAGE_FILE(curves_index_html, "index.html");
PAGE_FILE(curves_style_css, "style.css");
PAGE_FILE(curves_curves_js, "curves.js");

static const struct page_file files[] = {
    {"/", "text/html; charset=utf-8", curves_index_html, curves_index_html_end},
    {"/style.css", "text/css; charset=utf-8", curves_style_css, curves_style_css_end},
    {"/curves.js", "text/javascript; charset=utf-8", curves_curves_js, curves_curves_js_end},
};

const struct page_file *page_find(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}
