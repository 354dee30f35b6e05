/* MPI's C++ class, as MPICH has it: an error becomes an exception, and a handler is called once:   cxx_handlers FILE */
#include <mpi.h>

#include <cstdio>

static int calls, handled_file_bytes;

static void count(MPI::File &file, int *code, ...) {
    calls += *code != MPI_SUCCESS;
    handled_file_bytes = (int)file.Get_size();
}

static bool throws(MPI::File &file) {
    int value = 0;
    try {
        file.Read_at(-4, &value, 1, MPI::INT);
    } catch (MPI::Exception &thrown) {
        return thrown.Get_error_class() == MPI_ERR_ARG;
    }
    return false;
}

int main(int argc, char **argv) {
    MPI::Init(argc, argv);
    MPI::File file = MPI::File::Open(MPI::COMM_WORLD, argv[1], MPI::MODE_CREATE | MPI::MODE_RDWR, MPI::INFO_NULL);
    int value = 7;
    file.Write_at(0, &value, 1, MPI::INT);
    file.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    bool is_right = throws(file);
    if (!is_right) std::puts("no exception, or another one");
    file.Set_errhandler(MPI::File::Create_errhandler(count));
    file.Read_at(-4, &value, 1, MPI::INT);
    if (calls != 1) std::printf("the handler was called %d times\n", calls);
    if (handled_file_bytes != 4) std::printf("the handler's file has %d bytes\n", handled_file_bytes);
    file.Close();
    MPI::Finalize();
    if (is_right && calls == 1 && handled_file_bytes == 4) std::puts(" No Errors");
}
