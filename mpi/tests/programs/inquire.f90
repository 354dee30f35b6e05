! With `thalweg run --posix-names`: INQUIRE finds a stored file and its size, and unlink removes it, so that it can be
! created again with MPI_MODE_EXCL. Names that are not ours are the file system's.
program inquiring
    use mpi
    use iso_c_binding
    implicit none
    interface
        function unlink(name) bind(C)
            import
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int) :: unlink
        end function
    end interface
    integer :: code, rank, errors, all_errors
    character(len=1024) :: prefix
    call MPI_Init(code)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    prefix = 'SD:/test-'
    if (command_argument_count() > 0) call get_command_argument(1, prefix)
    errors = 0
    call make_and_remove(trim(prefix)//'inquire', 12345)
    call make_and_remove(trim(prefix)//'inquire', 77)
    if (command_argument_count() > 1) then
        call get_command_argument(2, prefix)
        call make_and_remove(trim(prefix)//'/inquire', 99)
    end if
    call MPI_Allreduce(errors, all_errors, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    if (rank == 0 .and. all_errors == 0) print '(a)', ' No Errors'
    if (rank == 0 .and. all_errors > 0) print *, all_errors, 'errors'
    call MPI_Finalize(code)
contains
    subroutine expect(name, wanted_bytes, when)
        character(len=*), intent(in) :: name, when
        integer, intent(in) :: wanted_bytes
        logical :: exists
        integer :: bytes
        inquire (file=name, exist=exists, size=bytes)
        if ((exists .eqv. wanted_bytes >= 0) .and. bytes == wanted_bytes) return
        print *, name, ' ', when, exists, bytes
        errors = errors + 1
    end subroutine

    subroutine make_and_remove(name, bytes)
        character(len=*), intent(in) :: name
        integer, intent(in) :: bytes
        integer :: file
        call expect(name, -1, 'before')
        call MPI_Barrier(MPI_COMM_WORLD, code)
        call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_EXCL + MPI_MODE_WRONLY, MPI_INFO_NULL, file, &
                           code)
        if (code /= MPI_SUCCESS) errors = errors + 1
        call MPI_File_set_size(file, int(bytes, MPI_OFFSET_KIND), code)
        call MPI_File_close(file, code)
        call expect(name, bytes, 'closed')
        call MPI_Barrier(MPI_COMM_WORLD, code)
        if (rank == 0) then
            if (unlink(name//c_null_char) /= 0) errors = errors + 1
        end if
        call MPI_Barrier(MPI_COMM_WORLD, code)
        call expect(name, -1, 'removed')
        call MPI_Barrier(MPI_COMM_WORLD, code)
    end subroutine
end program
