"""What LRU would hold: its hit ratio over epochs that are random permutations, after a first one.

    lru.py SAMPLES ROOM EPOCHS     SAMPLES in the set, ROOM for so many of them
"""
import collections
import random
import sys


def lru(n, room, epochs):
    hits, cache = 0, collections.OrderedDict()
    for seed in range(epochs + 1):
        order = list(range(n))
        random.Random(seed).shuffle(order)
        for i in order:
            hits += i in cache and seed > 0
            cache[i] = cache.pop(i, None)
            if len(cache) > room:
                cache.popitem(last=False)
    return hits / n / epochs


if __name__ == "__main__":
    print(f"{lru(*map(int, sys.argv[1:])):.3f}")
