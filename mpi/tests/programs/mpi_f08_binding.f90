! Through mpi_f08: a type made for a precision, a subarray view, memory with gaps, and several requests at once.
program through_mpi_f08
    use mpi_f08
    implicit none
    integer, parameter :: n = 12
    integer :: rank, ranks, count, errors, all_errors, i, j, code, class
    type(MPI_File) :: file
    type(MPI_Datatype) :: view, real_type
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status, statuses(2)
    double precision :: block(n, n), found(n, n)
    integer(kind=MPI_OFFSET_KIND) :: bytes
    character(len=1024) :: prefix
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    prefix = 'SD:/test-'
    if (command_argument_count() > 0) call get_command_argument(1, prefix)
    errors = 0
    call MPI_Type_create_f90_real(15, 307, real_type)
    if (rank == 0) call MPI_File_delete(trim(prefix)//'f08', MPI_INFO_NULL, code)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_File_open(MPI_COMM_WORLD, trim(prefix)//"f08", ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file, &
                       code)
    if (code /= MPI_SUCCESS) errors = errors + 1
    call MPI_Type_create_subarray(2, [n, n * ranks], [n, n], [0, n * rank], MPI_ORDER_FORTRAN, real_type, view)
    call MPI_Type_commit(view)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, real_type, view, 'native', MPI_INFO_NULL, code)
    if (code /= MPI_SUCCESS) errors = errors + 1
    do j = 1, n
        do i = 1, n
            block(i, j) = 1000 * rank + 100 * i + j
        end do
    end do
    call MPI_File_write_all(file, block, n * n, real_type, status, code)
    call MPI_Get_count(status, real_type, count)
    if (code /= MPI_SUCCESS .or. count /= n * n) errors = errors + 1
    call MPI_File_iread_at(file, 0_MPI_OFFSET_KIND, found(:, 1:6), 6 * n, real_type, requests(1))
    call MPI_File_iread_at(file, int(6 * n, MPI_OFFSET_KIND), found(:, 7:n), 6 * n, real_type, requests(2))
    call MPI_Waitall(2, requests, statuses)
    if (any(found /= block)) errors = errors + 1
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_File_get_size(file, bytes)
    if (bytes /= 8_MPI_OFFSET_KIND * n * n * ranks) errors = errors + 1
    call MPI_File_close(file, code)
    if (code /= MPI_SUCCESS .or. file /= MPI_FILE_NULL) errors = errors + 1
    call MPI_File_open(MPI_COMM_WORLD, trim(prefix)//'f08-missing', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
    call MPI_Error_class(code, class)
    if (class /= MPI_ERR_NO_SUCH_FILE) errors = errors + 1
    call MPI_Allreduce(errors, all_errors, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0 .and. all_errors == 0) print '(a)', ' No Errors'
    if (rank == 0 .and. all_errors > 0) print *, all_errors, 'errors'
    call MPI_Finalize()
end program
