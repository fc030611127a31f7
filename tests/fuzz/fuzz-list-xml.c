/* The XML reader alone: every event to the end, with what it promises of depth and length. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "list-xml-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_xml struct xml x;
    cleanup_bytes struct bytes found = {0}, text = {0};
    int open = 0;
    xml_init(&x, data, size);
    for (enum xml_event e; (e = xml_next(&x)) != XML_END && e != XML_BAD;) {
        open += e == XML_OPEN ? 1 : -1;
        assert(open == (int)x.depth && open >= 0 && open <= XML_DEPTH_MAX);
        assert(x.text.len <= XML_TEXT_MAX && x.name.len > 0);
        assert(x.name.text >= (const char *)data &&
               x.name.text + x.name.len <= (const char *)data + size);
    }
    xml_find(data, size, "Key", &found);
    xml_escape(&text, (const char *)data, size);
    return 0;
}
