/*
 * What trainers and parameter servers of one job know, and nobody else: a token from a file, which
 * never goes over the network. Each end proves to the other that it knows it, by a keyed sum
 * (HMAC-SHA-256) over numbers that the other one drew:
 *
 *   trainer  HELLO      its number
 *   server   CHALLENGE  its number; the sum over both numbers
 *   trainer  PROOF      the sum over the server's number and all of HELLO
 *
 * So a listener learns nothing that lets it in later, and a greeting cannot be changed on its way.
 * What follows the greeting is not protected.
 */
#ifndef SAMPAN_TRAIN_PS_SECRET_H
#define SAMPAN_TRAIN_PS_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "log.h"

#define PS_NUMBER 32 /* bytes of a drawn number, and of a sum */

/* One line of at least 16 characters without blanks. `file` NULL or "": no secret (text NULL). */
int ps_secret_read(struct secret *ret, const char *file, struct err *err);
int ps_secret_draw(uint8_t ret[PS_NUMBER], struct err *err);

void ps_secret_of_server(const struct secret *s, const uint8_t trainer[PS_NUMBER],
                         const uint8_t server[PS_NUMBER], uint8_t ret[PS_NUMBER]);
void ps_secret_of_trainer(const struct secret *s, const uint8_t server[PS_NUMBER],
                          const void *hello, size_t len, uint8_t ret[PS_NUMBER]);
/* In a time that does not tell where they differ. */
bool ps_secret_same(const uint8_t a[PS_NUMBER], const uint8_t b[PS_NUMBER]);

#endif
