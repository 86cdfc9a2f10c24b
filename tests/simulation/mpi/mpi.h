// tests/simulation/mpi/mpi.h: the part of MPI that runtime/mpi/ uses, for the ranks of a Simulation
// (tests/simulation/mail.h). Names and meanings are the standard's.
#pragma once

struct TsrMailRequest;

using MPI_Comm = int;
using MPI_Datatype = int;  ///< its size
using MPI_Info = int;
using MPI_Errhandler = int;
using MPI_Request = TsrMailRequest*;
struct MPI_Status {
  int MPI_SOURCE = 0;
  int bytes = 0;
};

constexpr MPI_Comm MPI_COMM_WORLD = 0, MPI_COMM_NULL = -1;
constexpr MPI_Datatype MPI_BYTE = 1, MPI_CHAR = 1, MPI_INT = sizeof(int),
                       MPI_DOUBLE = sizeof(double);
constexpr MPI_Request MPI_REQUEST_NULL = nullptr;
constexpr MPI_Status* MPI_STATUS_IGNORE = nullptr;
constexpr MPI_Info MPI_INFO_NULL = 0;
constexpr MPI_Errhandler MPI_ERRORS_RETURN = 0;
constexpr int MPI_SUCCESS = 0, MPI_ERR_TRUNCATE = 15, MPI_ERR_OTHER = 16;
constexpr int MPI_MAX_ERROR_STRING = 64, MPI_COMM_TYPE_SHARED = 1, MPI_TAG_UB = 1;
constexpr int MPI_THREAD_SINGLE = 0, MPI_THREAD_FUNNELED = 1, MPI_THREAD_SERIALIZED = 2;

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided);
int MPI_Initialized(int* flag);
int MPI_Finalized(int* flag);
int MPI_Finalize();
int MPI_Abort(MPI_Comm comm, int code);
int MPI_Query_thread(int* provided);
int MPI_Is_thread_main(int* flag);
int MPI_Error_string(int code, char* text, int* length);

int MPI_Comm_rank(MPI_Comm comm, int* rank);
int MPI_Comm_size(MPI_Comm comm, int* size);
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request);
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made);
int MPI_Comm_free(MPI_Comm* comm);
int MPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* flag);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
MPI_Comm MPI_Comm_f2c(int handle);

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request);
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request);
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status);
int MPI_Cancel(MPI_Request* request);
int MPI_Request_free(MPI_Request* request);
int MPI_Get_count(const MPI_Status* status, MPI_Datatype type, int* count);
int MPI_Barrier(MPI_Comm comm);
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request);
// Over when they return.
int MPI_Iallgather(const void* data, int count, MPI_Datatype type, void* all, int each,
                   MPI_Datatype all_type, MPI_Comm comm, MPI_Request* request);
int MPI_Iallgatherv(const void* data, int count, MPI_Datatype type, void* all, const int* counts,
                    const int* offsets, MPI_Datatype all_type, MPI_Comm comm, MPI_Request* request);
