/* The files of the page, which are part of the program. */
#include "curves-internal.h"
#include "embed.h"

#define PAGE_FOLDER "trainer/curves/page/"

EMBED_FILE(curves_index_html, PAGE_FOLDER "index.html");
EMBED_FILE(curves_style_css, PAGE_FOLDER "style.css");
EMBED_FILE(curves_curves_js, PAGE_FOLDER "curves.js");
EMBED_FILE(curves_draw_js, PAGE_FOLDER "draw.js");
EMBED_FILE(curves_runs_js, PAGE_FOLDER "runs.js");

const struct page_file curves_files[] = {
    {"/", "text/html; charset=utf-8", curves_index_html, curves_index_html_end},
    {"/style.css", "text/css; charset=utf-8", curves_style_css, curves_style_css_end},
    {"/curves.js", "text/javascript; charset=utf-8", curves_curves_js, curves_curves_js_end},
    {"/draw.js", "text/javascript; charset=utf-8", curves_draw_js, curves_draw_js_end},
    {"/runs.js", "text/javascript; charset=utf-8", curves_runs_js, curves_runs_js_end},
    {NULL, NULL, NULL, NULL},
};
