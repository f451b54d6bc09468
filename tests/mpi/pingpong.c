/* Half the round trip of messages of some sizes between two ranks: the least of many short turns, since others use
 * the processors too; and with more ranks, the time of an allreduce. Prints one line a size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
  MPI_Init(&count, &words);
  int rank, ranks, turns = count > 1 ? atoi(words[1]) : 50;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  static const int SIZES[] = {8, 1024, 16384, 1 << 20};
  char *bytes = calloc(1, 1 << 20);
  for (int number = 0; number < 4 && ranks == 2; number++) {
    int size = SIZES[number], each = size < 10000 ? 200 : 20;
    double best = 1e9;
    for (int turn = 0; turn < turns; turn++) {
      MPI_Barrier(MPI_COMM_WORLD);
      double begin = MPI_Wtime();
      for (int at = 0; at < each; at++) {
        if (rank == 0) MPI_Send(bytes, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(bytes, size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(bytes, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
      }
      double took = (MPI_Wtime() - begin) / each / 2;
      if (took < best) best = took;
    }
    if (rank == 0) printf("%d %.4f\n", size, best * 1e6);
  }
  if (ranks > 2) {
    double value = rank, total, begin = MPI_Wtime();
    for (int turn = 0; turn < turns * 20; turn++)
      MPI_Allreduce(&value, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("0 %.4f\n", (MPI_Wtime() - begin) / turns / 20 * 1e6);
  }
  free(bytes);
  MPI_Finalize();
  return 0;
}
