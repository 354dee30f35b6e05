! Error handlers of Fortran programs on files: called once for each failure, with the code that the call returns. Their
! changes to the code are lost: only MPI can call them, and it does not return the code.
module handlers
    use mpi
    implicit none
    integer :: handled = 0, handled_code = MPI_SUCCESS
contains
    subroutine note(file, code)
        integer :: file, code
        handled = handled + 1
        handled_code = code
    end subroutine
end module

program error_handlers
    use mpi
    use handlers
    implicit none
    integer :: ranks, rank, ierr, failures, all_failures, file, noting
    integer :: status(MPI_STATUS_SIZE), values(4)
    character(1024) :: prefix, name

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
    prefix = 'SD:/test-'
    if (command_argument_count() >= 1) call get_command_argument(1, prefix)
    name = trim(prefix) // 'error_handlers'
    failures = 0
    values = rank

    call MPI_File_create_errhandler(note, noting, ierr)
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_WRONLY, MPI_INFO_NULL, file, ierr)
    call check(ierr == MPI_SUCCESS, 'open')
    call MPI_File_close(file, ierr)

    ! On a file.
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
    call MPI_File_set_errhandler(file, noting, ierr)
    call MPI_File_write(file, values, 4, MPI_INTEGER, status, ierr)
    call check(handled == 1, 'the handler of the file is called')
    call check(ierr /= MPI_SUCCESS .and. ierr == handled_code, 'the call returns the code')
    call check(class_of(ierr) == MPI_ERR_READ_ONLY, 'the class of the code')
    call MPI_File_close(file, ierr)

    ! On MPI_FILE_NULL, for failed openings.
    name = trim(prefix) // 'nowhere'
    call MPI_File_set_errhandler(MPI_FILE_NULL, noting, ierr)
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
    call check(handled == 2, 'the default handler is called')
    call check(class_of(ierr) == MPI_ERR_NO_SUCH_FILE .and. ierr == handled_code, 'the code of a failed opening')
    call MPI_File_delete(name, MPI_INFO_NULL, ierr)
    call check(handled == 3 .and. class_of(ierr) == MPI_ERR_NO_SUCH_FILE, 'the code of a failed removal')
    call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN, ierr)
    call MPI_Errhandler_free(noting, ierr)

    call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (rank == 0 .and. all_failures == 0) print '(a)', ' No Errors'
    call MPI_Finalize(ierr)
contains
    integer function class_of(code)
        integer, intent(in) :: code
        integer :: ierr_of_class
        call MPI_Error_class(code, class_of, ierr_of_class)
    end function

    subroutine check(is_right, what)
        logical, intent(in) :: is_right
        character(*), intent(in) :: what
        if (is_right) return
        failures = failures + 1
        print '(a, i0, 3a, i0, a, i0)', ' rank ', rank, ': wrong: ', what, ', handled ', handled, ', returned ', ierr
    end subroutine
end program
