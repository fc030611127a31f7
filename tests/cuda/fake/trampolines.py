"""trampolines.py PRECISION KERNELS.cu...: C source that runs the kernels on the host: their text, a
function each that takes its arguments from an array of pointers, and the table of all."""
import re
import sys

precision, files = sys.argv[1], sys.argv[2:]
text = "".join(open(f, encoding="utf-8").read() for f in files)
print('#include <math.h>\n#include "parts.h"')
if precision == "bf16":
    print("#define ACT_BF16")
print("""#define uint4 struct fake_words
#define KERNEL static void
#define KERNEL_SYNC static void
#define DEVICE static inline
#define SHARED static
#define BARRIER() fake_barrier()
#define threadIdx fake_thread_at
#define blockIdx fake_block_at
#define blockDim fake_block
#define gridDim fake_grid""")
for f in files:
    print(f'#include "{f}"')
rows = []
for sync, name, args in re.findall(r"^KERNEL(_SYNC)? k_(\w+)\(([^)]*)\)", text, re.M):
    types = [re.sub(r"\w+$", "", a.strip()).strip() for a in args.replace("\n", " ").split(",")]
    print(f"static const size_t sizes_{name}[] = {{" + ", ".join(f"sizeof({t})" for t in types) + ", 0};")
    call = ", ".join(f"*({t} *)a[{i}]" for i, t in enumerate(types))
    print(f"static void call_{name}(void **a)\n{{\n    k_{name}({call});\n}}")
    rows.append(f'    {{"k_{name}", {"true" if sync else "false"}, call_{name}, sizes_{name}}},')
print(f"const struct fake_kernel fake_kernels_{precision}[] = {{")
print("\n".join(rows))
print("    {NULL, false, NULL, NULL},\n};")
