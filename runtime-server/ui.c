/*
 * /ui: the dashboard, a few files out of runtime-server/ui/ that are part of the program. They need
 * no token, as they hold nothing: all that they show comes from the routes that want one. The page
 * may load its own parts and ask this server, and nothing else.
 */
#include <string.h>

#include "server-internal.h"
#include "embed.h"

#define UI_FOLDER "runtime-server/ui/"

EMBED_FILE(ui_index_html, UI_FOLDER "index.html");
EMBED_FILE(ui_style_css, UI_FOLDER "style.css");
EMBED_FILE(ui_icon_svg, UI_FOLDER "icon.svg");
EMBED_FILE(ui_app_js, UI_FOLDER "app.js");
EMBED_FILE(ui_api_js, UI_FOLDER "api.js");
EMBED_FILE(ui_cards_js, UI_FOLDER "cards.js");
EMBED_FILE(ui_chart_js, UI_FOLDER "chart.js");
EMBED_FILE(ui_jobs_js, UI_FOLDER "jobs.js");
EMBED_FILE(ui_words_js, UI_FOLDER "words.js");

#define JAVASCRIPT "text/javascript; charset=utf-8"

static const struct page_file files[] = {
    {"", "text/html; charset=utf-8", ui_index_html, ui_index_html_end},
    {"style.css", "text/css; charset=utf-8", ui_style_css, ui_style_css_end},
    {"icon.svg", "image/svg+xml", ui_icon_svg, ui_icon_svg_end},
    {"app.js", JAVASCRIPT, ui_app_js, ui_app_js_end},
    {"api.js", JAVASCRIPT, ui_api_js, ui_api_js_end},
    {"cards.js", JAVASCRIPT, ui_cards_js, ui_cards_js_end},
    {"chart.js", JAVASCRIPT, ui_chart_js, ui_chart_js_end},
    {"jobs.js", JAVASCRIPT, ui_jobs_js, ui_jobs_js_end},
    {"words.js", JAVASCRIPT, ui_words_js, ui_words_js_end},
    {NULL, NULL, NULL, NULL},
};

void serve_ui(struct request *r, struct answer *a)
{
    static const struct reply_header more[] = {
        {MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
         "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
         "require-trusted-types-for 'script'"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Referrer-Policy", "no-referrer"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {NULL, NULL},
    };
    const struct page_file *f = page_find(files, r->id);
    if (!f) {
        struct err err = {0};
        err_set(&err, ERR_NOT_FOUND, "the dashboard has no such file");
        answer_error(a, &err);
        return;
    }
    bool queued = http_reply(r->connection, MHD_HTTP_OK, f->type, f->begin,
                             (size_t)(f->end - f->begin), more) == MHD_YES;
    a->status = queued ? 0 : MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* For those who type an address. Relative, as there may be a proxy with a prefix of its own. */
void serve_to_ui(struct request *r, struct answer *a)
{
    a->status = MHD_HTTP_FOUND;
    snprintf(a->location, sizeof a->location, "%s",
             strcmp(r->route->path, "/") == 0 ? "ui" : "../ui");
}
