/* Messages of 8 bytes between two ranks, whose calls `instructions.py` counts: each batch is posted, sent and received
 * in functions of its own, and no call waits, since the ranks meet outside of MPI in between. */
#include <mpi.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BATCH = 32, POLLS = 512, WARM = 4 };
static MPI_Request requests[BATCH];
static double in[BATCH], out[BATCH];
static atomic_int *arrived;
static int rank, meetings;

static void meet(void) {
  atomic_fetch_add(arrived, 1);
  meetings++;
  while (atomic_load(arrived) < 2 * meetings) usleep(100);
}

__attribute__((noinline)) void counted_post(void) {
  for (int at = 0; at < BATCH; at++)
    MPI_Irecv(&in[at], 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &requests[at]);
}

__attribute__((noinline)) void counted_send(void) {
  for (int at = 0; at < BATCH; at++) MPI_Send(&out[at], 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD);
}

__attribute__((noinline)) void counted_receive(void) { MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE); }

/* Polls that find nothing, while receives are posted. */
__attribute__((noinline)) void counted_poll(void) {
  for (int at = 0, is_done; at < POLLS; at++) MPI_Test(&requests[0], &is_done, MPI_STATUS_IGNORE);
}

/* The same calls, which are not counted: what is done once only is done here. */
static void warm(void) {
  for (int at = 0; at < BATCH; at++)
    MPI_Irecv(&in[at], 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &requests[at]);
  for (int at = 0; at < BATCH; at++) MPI_Send(&out[at], 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD);
  MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int file = open(words[1], O_RDWR), batches = atoi(words[2]);
  arrived = mmap(NULL, sizeof *arrived, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (arrived == MAP_FAILED) return 1;
  for (int at = 0; at < BATCH; at++) out[at] = rank * 1000 + at;
  for (int at = 0; at < WARM; at++) warm();
  for (int batch = 0; batch < batches; batch++) {
    counted_post();
    meet();
    counted_poll();
    meet();
    if (rank == 1) counted_send();
    meet();
    if (rank == 0) counted_send();
    meet();
    counted_receive();
    meet();
    for (int at = 0; at < BATCH; at++)
      if (in[at] != (1 - rank) * 1000 + at) return 2;
  }
  MPI_Finalize();
  return 0;
}
