/* Learning rates. */
#include <math.h>
#include <string.h>

#include "schedule.h"

int schedule_kind(const char *name, enum schedule_kind *ret, struct err *err)
{
    static const char *const names[] = {"constant", "step", "cosine"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum schedule_kind)i;
            return 0;
        }
    return err_set(err, ERR_USAGE, "--schedule: %s: want constant, step or cosine", name);
}

double schedule_rate(const struct schedule *s, uint64_t step)
{
    if (step < s->warmup)
        return s->base * (double)(step + 1) / (double)s->warmup;
    uint64_t changes = s->every > 0 ? step / s->every : 0;
    if (s->kind == SCHEDULE_STEP)
        return s->base * pow(s->factor, (double)changes);
    if (s->kind == SCHEDULE_COSINE && s->total > s->warmup) {
        double done = (double)(step - s->warmup) / (double)(s->total - s->warmup);
        return done >= 1 ? 0 : s->base * 0.5 * (1 + cos(3.14159265358979323846 * done));
    }
    return s->base;
}
