/* The same sets and volumes as the volume's own tests have. */
#include "volume/support.c"
