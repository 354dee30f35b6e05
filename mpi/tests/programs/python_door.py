"""mpi4py loads MPI privately (RTLD_LOCAL); the door must find it all the same. argv[1] is the prefix of names, ours or
plain ones."""
import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
name = sys.argv[1] + "python"
file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
mine = bytes([rank + 1]) * 1000
file.Write_at_all(rank * 1000, mine)
request = file.Iread_at(((rank + 1) % ranks) * 1000, found := bytearray(1000))
if name.startswith("SD:"):  # Open MPI's own files refuse this while an operation is under way
    file.Sync()
status = MPI.Status()
request.Wait(status)
file.Sync()
file.Read_at(((rank + 1) % ranks) * 1000, found)
right = found == bytes([(rank + 1) % ranks + 1]) * 1000 and file.Get_size() == 1000 * ranks
if name.startswith("SD:"):
    file.Seek_shared(0)
    file.Write_ordered(bytes([rank + 65]) * (rank + 1))
    right = right and file.Get_position_shared() == ranks * (ranks + 1) // 2
    file.Sync()
    comm.Barrier()
    file.Seek_shared(0)
    file.Read_ordered(ours := bytearray(rank + 1))
    right = right and ours == bytes([rank + 65]) * (rank + 1)
    file.Write_shared(b"end", status)
    right = right and status.Get_count() == 3
    file.Sync()
    comm.Barrier()
    file.Set_view(0, MPI.INT32_T, MPI.INT32_T, "external32")
    file.Write_at_all(rank, [array("i", [-2 - rank]), MPI.INT32_T])
    file.Set_view(0)
    file.Read_at(4 * rank, raw := bytearray(4))
    right = right and raw == (-2 - rank).to_bytes(4, "big", signed=True)
file.Close()
try:
    MPI.File.Open(comm, sys.argv[1] + "missing", MPI.MODE_RDONLY)
    right = False
except MPI.Exception as error:
    right = right and error.Get_error_class() == MPI.ERR_NO_SUCH_FILE
    right = right and ("missing" in error.Get_error_string() or not name.startswith("SD:"))
all_right = comm.allreduce(int(right), MPI.MIN)
if rank == 0 and all_right:
    print(" No Errors")
sys.exit(0 if all_right else 1)
