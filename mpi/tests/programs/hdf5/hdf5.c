/* Parallel HDF5 on a file of ours: every rank writes its rows of a dataset, collectively and chunked, and reads the
 * rows of its neighbour; attributes and a second opening too. */
#include "check.h"

#include <hdf5.h>

#define ROWS 24
#define COLUMNS 37

static hid_t parallel_access(void) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "fapl");
    return access;
}

static hid_t rows_of(hid_t dataset, int owner, hid_t *memory) {
    hsize_t start[2] = {(hsize_t)owner * ROWS, 0}, count[2] = {ROWS, COLUMNS};
    hid_t space = H5Dget_space(dataset);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    *memory = H5Screate_simple(2, count, NULL);
    return space;
}

static void move_rows(hid_t dataset, int owner, double *values, int writing, H5FD_mpio_xfer_t mode) {
    hid_t memory, space = rows_of(dataset, owner, &memory), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(transfer, mode);
    herr_t code = writing ? H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, values)
                          : H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, values);
    CHECK(code >= 0, "moving rows of %d", owner);
    H5Pclose(transfer);
    H5Sclose(space);
    H5Sclose(memory);
}

static hid_t new_dataset(hid_t file, const char *name, int chunked) {
    hsize_t size[2] = {(hsize_t)ranks * ROWS, COLUMNS}, chunk[2] = {7, 11};
    hid_t space = H5Screate_simple(2, size, NULL), creation = H5Pcreate(H5P_DATASET_CREATE);
    if (chunked) H5Pset_chunk(creation, 2, chunk);
    hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    CHECK(dataset >= 0, "creating %s", name);
    H5Pclose(creation);
    H5Sclose(space);
    return dataset;
}

static void fill(double *values, int owner, int factor) {
    for (int at = 0; at < ROWS * COLUMNS; at++) values[at] = factor * (owner * 10000.0 + at);
}

static void write_all(const char *name) {
    static double values[ROWS * COLUMNS];
    hid_t access = parallel_access(), file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    CHECK(file >= 0, "creating %s", name);
    hid_t rows = new_dataset(file, "rows", 0), chunks = new_dataset(file, "chunks", 1);
    fill(values, rank, 1);
    move_rows(rows, rank, values, 1, H5FD_MPIO_INDEPENDENT);
    fill(values, rank, 3);
    move_rows(chunks, rank, values, 1, H5FD_MPIO_COLLECTIVE);
    H5Dclose(rows);
    H5Dclose(chunks);
    CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "flush");
    CHECK(H5Fclose(file) >= 0, "close");
    H5Pclose(access);
}

static void check_rows(hid_t file, const char *name, int factor, H5FD_mpio_xfer_t mode) {
    static double values[ROWS * COLUMNS], wanted[ROWS * COLUMNS];
    int owner = (rank + 1) % ranks;
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    move_rows(dataset, owner, values, 0, mode);
    fill(wanted, owner, factor);
    CHECK(memcmp(values, wanted, sizeof wanted) == 0, "rows of %d in %s", owner, name);
    H5Dclose(dataset);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *name = file_name("hdf5.h5");
    write_all(name);
    hid_t access = parallel_access(), file = H5Fopen(name, H5F_ACC_RDONLY, access);
    CHECK(file >= 0, "opening %s", name);
    check_rows(file, "rows", 1, H5FD_MPIO_COLLECTIVE);
    check_rows(file, "chunks", 3, H5FD_MPIO_COLLECTIVE);
    check_rows(file, "chunks", 3, H5FD_MPIO_INDEPENDENT);
    H5Fclose(file);
    H5Pclose(access);
    return finish();
}
