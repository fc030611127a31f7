/* What a controller sees and what it wants done, as texts: what goes into golden tests, and out. */
#ifndef SAMPAN_TEST_OPERATOR_AS_TEXT_H
#define SAMPAN_TEST_OPERATOR_AS_TEXT_H

#include "actions.h"
#include "err.h"
#include "view.h"

/* A complete view of the objects of a text: {"now":…, "object":{…}, "objects":[{…}…],
 * "answers":{"URL":{"status":200,"body":…}}}. Kinds come from apiVersion and kind. */
int view_of_text(struct view **ret, const char *text, struct err *err);

/* One line an action:
 *   create Pod ns/name {…}                 status SampleSet ns/name version=12 {…}
 *   delete Pod ns/name uid=…               event Warning Reason: message
 *   send POST http://… [filename: x] {…}   again 5s
 */
void actions_text(const struct actions *a, struct bytes *out);

/* By apiVersion and kind; KIND_N: none of ours. */
enum kind object_kind(const struct json *o);

#endif
