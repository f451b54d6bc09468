/* Messages of every kind between MPI ranks. Whatever arrives is checked; what is printed depends on the number of
 * ranks alone, so that two transports can be compared. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static unsigned long sum;

static void fill(unsigned char *bytes, int count, int salt) {
  for (int at = 0; at < count; at++) bytes[at] = (unsigned char)(at * 31 + at / 251 + salt);
}

static void check(const unsigned char *bytes, int count, int salt, const char *what) {
  for (int at = 0; at < count; at++) {
    if (bytes[at] != (unsigned char)(at * 31 + at / 251 + salt)) {
      fprintf(stderr, "rank %d: %s: byte %d of %d is wrong\n", rank, what, at, count);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
    sum = sum * 1000003 + bytes[at];
  }
}

static void require(int is_so, const char *what) {
  if (!is_so) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
}

static const int SIZES[] = {0, 1, 8, 40, 41, 1000, 8192, 8193, 65536, 300000, 2000000};
#define COUNT ((int)(sizeof SIZES / sizeof *SIZES))

/* Each rank to the next, all at once: blocking, not blocking, synchronous, and not yet expected. */
static void ring(unsigned char *out, unsigned char *in) {
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (int number = 0; number < COUNT; number++) {
    int size = SIZES[number];
    fill(out, size, rank + number);
    for (int way = 0; way < 4; way++) {
      MPI_Request request;
      MPI_Status status;
      memset(in, 0, size);
      if (way == 0) {
        MPI_Sendrecv(out, size, MPI_BYTE, next, number, in, size, MPI_BYTE, before, number, MPI_COMM_WORLD, &status);
      } else if (way == 1) {
        MPI_Irecv(in, size, MPI_BYTE, MPI_ANY_SOURCE, number, MPI_COMM_WORLD, &request);
        MPI_Send(out, size, MPI_BYTE, next, number, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
      } else if (way == 2) {
        MPI_Issend(out, size, MPI_BYTE, next, number, MPI_COMM_WORLD, &request);
        MPI_Recv(in, size, MPI_BYTE, before, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        MPI_Isend(out, size, MPI_BYTE, next, number, MPI_COMM_WORLD, &request);
        MPI_Probe(before, number, MPI_COMM_WORLD, &status);
        int length;
        MPI_Get_count(&status, MPI_BYTE, &length);
        require(length == size, "the probed length is wrong");
        MPI_Message message;
        MPI_Mprobe(MPI_ANY_SOURCE, number, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(in, size, MPI_BYTE, &message, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      int length;
      MPI_Get_count(&status, MPI_BYTE, &length);
      require(length == size && status.MPI_SOURCE == before && status.MPI_TAG == number, "the status is wrong");
      check(in, size, before + number, "ring");
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

/* More messages than any ring holds, received in the opposite order of their tags. */
static void flood(unsigned char *out, unsigned char *in) {
  enum { MESSAGES = 400, SIZE = 3000 };
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  MPI_Request sends[MESSAGES];
  for (int tag = 0; tag < MESSAGES; tag++) {
    fill(out + tag * SIZE, SIZE, rank + tag);
    MPI_Isend(out + tag * SIZE, SIZE, MPI_BYTE, next, tag, MPI_COMM_WORLD, &sends[tag]);
  }
  for (int tag = MESSAGES - 1; tag >= 0; tag--) {
    MPI_Recv(in, SIZE, MPI_BYTE, before, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(in, SIZE, before + tag, "flood");
  }
  MPI_Waitall(MESSAGES, sends, MPI_STATUSES_IGNORE);
}

/* A column of a matrix, which is not contiguous in memory. */
static void column(void) {
  enum { SIDE = 300 };
  static double out[SIDE][SIDE], in[SIDE][SIDE];
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  MPI_Datatype type;
  MPI_Type_vector(SIDE, 1, SIDE, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  for (int row = 0; row < SIDE; row++) out[row][7] = rank * 1000 + row;
  MPI_Sendrecv(&out[0][7], 1, type, next, 1, &in[0][9], 1, type, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int row = 0; row < SIDE; row++) require(in[row][9] == before * 1000 + row, "the column is wrong");
  MPI_Type_free(&type);
}

static void cancelled(unsigned char *in) {
  MPI_Request request;
  MPI_Status status;
  int is_cancelled;
  MPI_Irecv(in, 8, MPI_BYTE, MPI_ANY_SOURCE, 30000, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &is_cancelled);
  require(is_cancelled, "the receive was not cancelled");
}

static void collectives(unsigned char *out, unsigned char *in) {
  double value = rank + 1, total;
  MPI_Allreduce(&value, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  require(total == ranks * (ranks + 1) / 2.0, "the sum is wrong");
  enum { EACH = 20000 };
  for (int to = 0; to < ranks; to++) fill(out + to * EACH, EACH, rank * 7 + to);
  MPI_Alltoall(out, EACH, MPI_BYTE, in, EACH, MPI_BYTE, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; from++) check(in + from * EACH, EACH, from * 7 + rank, "alltoall");
  if (rank == 0) fill(out, 100000, 5);
  MPI_Bcast(out, 100000, MPI_BYTE, 0, MPI_COMM_WORLD);
  check(out, 100000, 5, "bcast");
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  int own, all;
  MPI_Comm_rank(half, &own);
  MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MAX, half);
  require(all == (ranks + 1 - rank % 2) / 2 - 1, "the maximum of a half is wrong");
  MPI_Comm_free(&half);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  unsigned char *out = calloc(1, 4000000), *in = calloc(1, 4000000);
  int rounds = count > 1 ? atoi(words[1]) : 1;
  for (int round = 0; round < rounds; round++) {
    ring(out, in);
    flood(out, in);
    column();
    cancelled(in);
    collectives(out, in);
  }
  unsigned long *sums = calloc(ranks, sizeof *sums);
  MPI_Gather(&sum, 1, MPI_UNSIGNED_LONG, sums, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
  if (rank == 0)
    for (int from = 0; from < ranks; from++) printf("rank %d: %016lx\n", from, sums[from]);
  free(out), free(in), free(sums);
  MPI_Finalize();
  return 0;
}
