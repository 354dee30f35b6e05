/* Reads doubles of a file that another machine wrote, big-endian: each rank those of its turn, and checks what they are.
 *
 * argv[1] is the file, of 1000 doubles: the numbers from 0 on, divided by 8.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

enum { DOUBLES = 1000 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file;
    MPI_Datatype turns;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_Type_create_resized(MPI_DOUBLE, 0, ranks * (MPI_Aint)sizeof(double), &turns));
    OK(MPI_Type_commit(&turns));
    OK(MPI_File_set_view(file, rank * (MPI_Offset)sizeof(double), MPI_DOUBLE, turns, "external32", MPI_INFO_NULL));
    double values[DOUBLES];
    MPI_Status status;
    int count = 0, wanted = (DOUBLES - rank + ranks - 1) / ranks;
    OK(MPI_File_read_all(file, values, DOUBLES, MPI_DOUBLE, &status));
    OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK(count == wanted, "rank %d read %d doubles, not %d", rank, count, wanted);
    for (int at = 0; at < count; at++)
        CHECK(values[at] == (rank + at * ranks) / 8.0, "double %d of rank %d is %g", at, rank, values[at]);
    OK(MPI_Type_free(&turns));
    OK(MPI_File_close(&file));
    return finish();
}
