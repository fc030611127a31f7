/* A file of the tree as part of the program: its bytes stand between `name` and `name_end`. `path`
 * is from the root of the tree; make knows of the file by a rule of its own. */
#ifndef SAMPAN_BASE_EMBED_H
#define SAMPAN_BASE_EMBED_H

#define EMBED_FILE(name, path)                                                                   \
    extern const char name[], name##_end[];                                                      \
    __asm__(".pushsection .rodata\n"                                                             \
            ".global " #name "\n.global " #name "_end\n" #name ":\n.incbin \"" path "\"\n" #name \
            "_end:\n.byte 0\n.popsection\n")

#endif
