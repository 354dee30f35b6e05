/* Whether a plain file is what `steps` had written when SYNCED steps were synced and STARTED were started:
 *
 *     steps_check FILE RANKS SYNCED STARTED
 *
 * All of the synced steps must be there; each byte may be of the step that was under way instead, and of no other.
 */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t file_bytes;
static unsigned char *content;

/* The content allowed at a place: of the last synced step that wrote it, or of a step under way. */
static int may_be(unsigned char byte, int64_t at, int ranks, int synced, int started) {
    if (at < area_bytes(ranks)) {
        if (synced == 0 && byte == 0) return 1;
        for (int step = synced ? synced : 1; step <= started; step++)
            if (byte == byte_of(step, at)) return 1;
        return 0;
    }
    int step = (int)((at - area_bytes(ranks)) / slab_bytes(ranks)) + 1;
    if (step <= synced) return byte == byte_of(step, at);
    return byte == 0 || (step <= started && byte == byte_of(step, at));
}

static void read_whole(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file) exit((perror(name), 2));
    fseek(file, 0, SEEK_END);
    file_bytes = ftell(file);
    rewind(file);
    content = malloc((size_t)file_bytes + 1);
    if (fread(content, 1, (size_t)file_bytes, file) != (size_t)file_bytes) exit((perror(name), 2));
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int ranks = atoi(argv[2]), synced = atoi(argv[3]), started = atoi(argv[4]);
    int64_t least = synced ? bytes_after(synced, ranks) : 0, most = bytes_after(started, ranks);
    read_whole(argv[1]);
    if (file_bytes < least || file_bytes > most) {
        printf("%lld bytes, not %lld to %lld\n", (long long)file_bytes, (long long)least, (long long)most);
        return 1;
    }
    for (int64_t at = 0; at < file_bytes; at++)
        if (!may_be(content[at], at, ranks, synced, started)) {
            printf("byte %lld of %lld is %d, which is of no step from %d to %d\n", (long long)at, (long long)file_bytes,
                   content[at], synced, started);
            return 1;
        }
    return 0;
}
