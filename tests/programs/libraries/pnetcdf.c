/* PnetCDF, unmodified: makes a file, refuses to make it again, opens it and reads it, and makes it anew. argv[1] is its name. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 10

static void check(int found, int wanted, const char *what) {
    if (found == wanted) return;
    printf("%s: %s, not %s\n", what, ncmpi_strerrno(found), ncmpi_strerrno(wanted));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void store(const char *name, int length) {
    int file, dimension, variable, values[COUNT];
    for (int at = 0; at < length; at++) values[at] = length + at;
    check(ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER, MPI_INFO_NULL, &file), NC_NOERR, "create");
    check(ncmpi_def_dim(file, "x", length, &dimension), NC_NOERR, "def_dim");
    check(ncmpi_def_var(file, "v", NC_INT, 1, &dimension, &variable), NC_NOERR, "def_var");
    check(ncmpi_enddef(file), NC_NOERR, "enddef");
    check(ncmpi_put_var_int_all(file, variable, values), NC_NOERR, "put");
    check(ncmpi_close(file), NC_NOERR, "close");
}

static void read_back(const char *name, int length) {
    int file, variable, values[COUNT];
    check(ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &file), NC_NOERR, "open");
    check(ncmpi_inq_varid(file, "v", &variable), NC_NOERR, "inq_varid");
    check(ncmpi_get_var_int_all(file, variable, values), NC_NOERR, "get");
    check(ncmpi_close(file), NC_NOERR, "close");
    for (int at = 0; at < length; at++)
        if (values[at] != length + at) {
            printf("value %d is %d\n", at, values[at]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

int main(int argc, char **argv) {
    int file, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &file), NC_ENOENT, "open of nothing");
    store(argv[1], COUNT);
    check(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_NOCLOBBER, MPI_INFO_NULL, &file), NC_EEXIST, "create without NC_CLOBBER");
    read_back(argv[1], COUNT);
    store(argv[1], COUNT / 2);
    read_back(argv[1], COUNT / 2);
    MPI_Finalize();
    if (rank == 0) printf(" No Errors\n");
    return 0;
}
