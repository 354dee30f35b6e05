/* Each rank writes words, which encoders of more effort store in fewer bytes, with the hint thalweg_mode given
 * when the file is opened or later:   encoding_mode FILE MODE open|later */
#include "check.h"

#define TEXT_BYTES (2 << 20)
#define WORDS 2048

/* Words of 3 to 10 letters, the first of them oftener than the last. */
static void write_words(MPI_File file) {
    char words[WORDS][11], *text = malloc(TEXT_BYTES + 11);
    for (int word = 0; word < WORDS; word++) {
        size_t bytes = (size_t)(3 + random_below(8));
        for (size_t at = 0; at < bytes; at++) words[word][at] = (char)('a' + random_below(26));
        memcpy(words[word] + bytes, " ", 2);
    }
    for (size_t at = 0; at < TEXT_BYTES;) {
        const char *word = words[random_below(random_below(WORDS) + 1)];
        memcpy(text + at, word, strlen(word));
        at += strlen(word);
    }
    OK(MPI_File_write_at_all(file, (MPI_Offset)rank * TEXT_BYTES, text, TEXT_BYTES, MPI_CHAR, MPI_STATUS_IGNORE));
    free(text);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int is_later = strcmp(argv[3], "later") == 0;
    MPI_Info info;
    MPI_File file;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thalweg_mode", argv[2]);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, is_later ? MPI_INFO_NULL : info, &file));
    if (is_later) OK(MPI_File_set_info(file, info));
    write_words(file);
    OK(MPI_File_close(&file));
    MPI_Info_free(&info);
    return finish();
}
