! Through mpif.h: a view, strided writing, status counts, a nonblocking read, and an error's class.
program through_mpif
    implicit none
    include 'mpif.h'
    integer, parameter :: n = 50
    integer :: code, rank, ranks, file, view, vector, request, count, errors, all_errors, class, at
    integer :: status(MPI_STATUS_SIZE), values(n), found(n)
    integer(kind=MPI_OFFSET_KIND) :: place, bytes
    integer(kind=MPI_ADDRESS_KIND) :: lower, extent
    character(len=1024) :: prefix
    call MPI_Init(code)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
    prefix = 'SD:/test-'
    if (command_argument_count() > 0) call get_command_argument(1, prefix)
    errors = 0
    if (rank == 0) call MPI_File_delete(trim(prefix)//'mpif', MPI_INFO_NULL, code)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    call MPI_File_open(MPI_COMM_WORLD, trim(prefix)//'mpif', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
    if (code /= MPI_SUCCESS) errors = errors + 1
    lower = 0
    extent = 4 * ranks
    call MPI_Type_create_resized(MPI_INTEGER, lower, extent, view, code)
    call MPI_Type_commit(view, code)
    place = 4 * rank
    call MPI_File_set_view(file, place, MPI_INTEGER, view, 'native', MPI_INFO_NULL, code)
    if (code /= MPI_SUCCESS) errors = errors + 1
    do at = 1, n
        values(at) = 1000 * rank + at
    end do
    call MPI_File_write_all(file, values, n, MPI_INTEGER, status, code)
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    if (count /= n) errors = errors + 1
    place = 0
    call MPI_File_iread_at(file, place, found, n, MPI_INTEGER, request, code)
    call MPI_Wait(request, status, code)
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    if (count /= n .or. any(found /= values)) errors = errors + 1
    call MPI_File_iread_at(file, place, found, n, MPI_INTEGER, request, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    ! A type in the manner of MPI-1, with a marker for its upper bound: every third integer of memory.
    call MPI_Type_struct(2, [1, 1], [0, 12], [MPI_INTEGER, MPI_UB], vector, code)
    call MPI_Type_commit(vector, code)
    found = 0
    call MPI_File_read_at(file, place, found, 10, vector, status, code)
    call MPI_Get_count(status, vector, count, code)
    if (count /= 10 .or. any(found(1:28:3) /= values(1:10)) .or. found(2) /= 0) errors = errors + 1
    call MPI_File_sync(file, code)
    call MPI_File_get_size(file, bytes, code)
    if (bytes /= 4 * n * ranks) errors = errors + 1
    ! At the shared pointer, in the order of the ranks.
    place = 0
    call MPI_File_set_view(file, place, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, code)
    call MPI_File_seek_shared(file, place, MPI_SEEK_SET, code)
    call MPI_File_write_ordered(file, values, 2, MPI_INTEGER, status, code)
    if (code /= MPI_SUCCESS) errors = errors + 1
    call MPI_File_get_position_shared(file, place, code)
    if (place /= 2 * ranks) errors = errors + 1
    call MPI_Barrier(MPI_COMM_WORLD, code)
    place = 2 * rank
    call MPI_File_read_at(file, place, found, 2, MPI_INTEGER, status, code)
    if (any(found(1:2) /= values(1:2))) errors = errors + 1
    call MPI_File_iwrite_shared(file, values, 1, MPI_INTEGER, request, code)
    call MPI_Wait(request, status, code)
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    if (count /= 1) errors = errors + 1
    ! In MPI's portable representation integers are big-endian: read as they lie in the file, 1 is 2**24.
    call MPI_Barrier(MPI_COMM_WORLD, code)
    place = 0
    call MPI_File_set_view(file, place, MPI_INTEGER, MPI_INTEGER, 'external32', MPI_INFO_NULL, code)
    if (code /= MPI_SUCCESS) errors = errors + 1
    place = rank
    values(1) = rank + 1
    call MPI_File_write_at(file, place, values, 1, MPI_INTEGER, status, code)
    call MPI_File_read_at(file, place, found, 1, MPI_INTEGER, status, code)
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    if (count /= 1 .or. found(1) /= rank + 1) errors = errors + 1
    place = 0
    call MPI_File_set_view(file, place, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, code)
    place = rank
    call MPI_File_read_at(file, place, found, 1, MPI_INTEGER, status, code)
    if (found(1) /= (rank + 1) * 2**24) errors = errors + 1
    call MPI_File_close(file, code)
    if (file /= MPI_FILE_NULL) errors = errors + 1
    call MPI_File_open(MPI_COMM_WORLD, trim(prefix)//'mpif-missing', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
    call MPI_Error_class(code, class, count)
    if (class /= MPI_ERR_NO_SUCH_FILE) errors = errors + 1
    call MPI_Allreduce(errors, all_errors, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    if (rank == 0 .and. all_errors == 0) print '(a)', ' No Errors'
    if (rank == 0 .and. all_errors > 0) print *, all_errors, 'errors'
    call MPI_Finalize(code)
end program
