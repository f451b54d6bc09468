/* The calls that OSU's benchmarks make, point to point, on windows and in collectives, from 1 B to 4 MB and under
 * MPI_THREAD_MULTIPLE. Whatever arrives is checked; what is printed depends on the number of ranks alone. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 22, WINDOW = 16, THREADS = 3, ROUNDS = 4 };
static const int SIZES[] = {1, 8, 1000, 8192, 8193, 65536, MOST};
#define COUNT ((int)(sizeof SIZES / sizeof *SIZES))
static int rank, ranks;
static unsigned char *out, *in;

static unsigned char pattern(int at, int salt) { return (unsigned char)(at * 31 + at / 251 + salt); }

static void fill(unsigned char *bytes, int count, int salt) {
  for (int at = 0; at < count; at++) bytes[at] = pattern(at, salt);
}

static void require(int is_so, const char *what, int size) {
  if (is_so) return;
  fprintf(stderr, "rank %d: %s, %d B: wrong\n", rank, what, size);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void check(const unsigned char *bytes, int count, int salt, const char *what) {
  int wrong = 0;
  for (int at = 0; at < count; at++) wrong += bytes[at] != pattern(at, salt);
  require(wrong == 0, what, count);
}

/* Ranks beyond the last pair only meet the others. */
static int has_partner(void) { return (rank ^ 1) < ranks; }

/* osu_latency, osu_bw, osu_bibw, osu_mbw_mr: a window of messages to the partner, each acknowledged. */
static void windows_of_messages(int size) {
  MPI_Request requests[2 * WINDOW];
  int partner = rank ^ 1, is_first = rank % 2 == 0, many = size > 100000 ? 2 : WINDOW;
  unsigned char one = 1;
  /* All messages of a window have the same buffers, as there. */
  fill(out, size, partner + size);
  memset(in, 0, size);
  for (int both = 0; both < 2; both++) {
    int started = 0;
    for (int at = 0; at < many && (both || !is_first); at++)
      MPI_Irecv(in, size, MPI_BYTE, partner, 10, MPI_COMM_WORLD, &requests[started++]);
    for (int at = 0; at < many && (both || is_first); at++)
      MPI_Isend(out, size, MPI_BYTE, partner, 10, MPI_COMM_WORLD, &requests[started++]);
    MPI_Waitall(started, requests, MPI_STATUSES_IGNORE);
    if (both || !is_first) check(in, size, rank + size, "window of messages");
    if (is_first) MPI_Recv(&one, 1, MPI_BYTE, partner, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(&one, 1, MPI_BYTE, partner, 11, MPI_COMM_WORLD);
  }
}

/* osu_latency_persistent, osu_bw_persistent. */
static void persistent(int size) {
  MPI_Request requests[2];
  int partner = rank ^ 1;
  MPI_Send_init(out, size, MPI_BYTE, partner, 12, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(in, size, MPI_BYTE, partner, 12, MPI_COMM_WORLD, &requests[1]);
  for (int round = 0; round < ROUNDS; round++) {
    fill(out, size, rank + round);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check(in, size, partner + round, "persistent");
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

/* osu_latency_mt: each thread exchanges with its like in the partner, all at once. */
static void *thread(void *number) {
  int tag = 100 + (int)(long)number, partner = rank ^ 1;
  unsigned char *to = malloc(65536), *from = malloc(65536);
  for (int round = 0; round < 40; round++) {
    int size = SIZES[round % 6];
    fill(to, size, rank + tag + round);
    if (rank % 2 == 0) {
      MPI_Send(to, size, MPI_BYTE, partner, tag, MPI_COMM_WORLD);
      MPI_Recv(from, size, MPI_BYTE, partner, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(from, size, MPI_BYTE, partner, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(to, size, MPI_BYTE, partner, tag, MPI_COMM_WORLD);
    }
    check(from, size, partner + tag + round, "threads");
  }
  free(to), free(from);
  return NULL;
}

static void threads(void) {
  pthread_t all[THREADS];
  for (long at = 0; at < THREADS; at++) pthread_create(&all[at], NULL, thread, (void *)at);
  for (int at = 0; at < THREADS; at++) pthread_join(all[at], NULL);
}

enum sync { LOCK, LOCK_ALL, FLUSH, FLUSH_LOCAL, PSCW, FENCE, SYNCS };
static const char *const SYNC[] = {"lock", "lock_all", "flush", "flush_local", "pscw", "fence"};

/* Begins an epoch in which each rank accesses the next; `next` and `before` are groups of one rank. */
static void begin(enum sync sync, MPI_Win win, int to, MPI_Group next, MPI_Group before) {
  if (sync == PSCW) MPI_Win_post(before, 0, win), MPI_Win_start(next, 0, win);
  else if (sync == FENCE) MPI_Win_fence(0, win);
  else if (sync == LOCK) MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
  else MPI_Win_lock_all(0, win);
}

/* Ends it; behind it, all ranks' accesses have taken effect. */
static void end(enum sync sync, MPI_Win win, int to) {
  if (sync == PSCW) MPI_Win_complete(win), MPI_Win_wait(win);
  else if (sync == FENCE) MPI_Win_fence(0, win);
  else if (sync == LOCK) MPI_Win_unlock(to, win);
  else {
    if (sync == FLUSH) MPI_Win_flush(to, win);
    if (sync == FLUSH_LOCAL) MPI_Win_flush_local(to, win), MPI_Win_flush_local_all(win), MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  /* The own memory is read without an epoch. */
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
  MPI_Win_sync(win);
  MPI_Win_unlock(rank, win);
}

/* A window, and the displacement of each rank's memory in it. */
struct window {
  MPI_Win win;
  unsigned char *memory;
  MPI_Aint *at;
  const char *name;
};

/* osu_put_*, osu_get_*, osu_acc_latency, osu_get_acc_latency under every synchronisation. */
static void put_and_get(struct window *it, enum sync sync, int size, MPI_Group next, MPI_Group before) {
  int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, words = size / 4;
  MPI_Aint there = it->at[to];
  char what[64];
  snprintf(what, sizeof what, "%s, %s", it->name, SYNC[sync]);
  memset(it->memory, 0, size), memset(in, 0, size);
  fill(out, size, rank + size + sync);
  MPI_Barrier(MPI_COMM_WORLD);
  begin(sync, it->win, to, next, before);
  MPI_Put(out, size, MPI_BYTE, to, there, size, MPI_BYTE, it->win);
  end(sync, it->win, to);
  check(it->memory, size, from + size + sync, what);
  MPI_Barrier(MPI_COMM_WORLD);
  begin(sync, it->win, to, next, before);
  MPI_Get(in, size, MPI_BYTE, to, there, size, MPI_BYTE, it->win);
  end(sync, it->win, to);
  check(in, size, rank + size + sync, what);
  if (words == 0) return;
  int *own = (int *)it->memory, *add = (int *)out, *found = (int *)in;
  for (int word = 0; word < words; word++) own[word] = word + rank, add[word] = 3 * word + 1;
  MPI_Barrier(MPI_COMM_WORLD);
  begin(sync, it->win, to, next, before);
  MPI_Accumulate(add, words, MPI_INT, to, there, words, MPI_INT, MPI_SUM, it->win);
  end(sync, it->win, to);
  for (int word = 0; word < words; word++) require(own[word] == 4 * word + rank + 1, what, size);
  MPI_Barrier(MPI_COMM_WORLD);
  begin(sync, it->win, to, next, before);
  MPI_Get_accumulate(add, words, MPI_INT, found, words, MPI_INT, to, there, words, MPI_INT, MPI_SUM, it->win);
  end(sync, it->win, to);
  for (int word = 0; word < words; word++) {
    require(found[word] == 4 * word + to + 1, what, size);
    require(own[word] == 7 * word + rank + 2, what, size);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* osu_fop_latency, osu_cas_latency: all ranks on the first word of rank 0. Open MPI 4.1.4 crashes if they compare and
 * swap at once in a window that it has not allocated, with its own messages as well. */
static void counters(struct window *it, int swaps) {
  enum { TIMES = 50 };
  long *word = (long *)it->memory, one = 1, found, expected = 0;
  *word = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, it->win);
  for (int at = 0; at < TIMES; at++) {
    MPI_Fetch_and_op(&one, &found, MPI_LONG, 0, it->at[0], MPI_SUM, it->win);
    MPI_Win_flush(0, it->win);
    require(found >= at && found < (long)ranks * TIMES, "fetch and op", 8);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  /* Each adds by compare and swap as often. */
  for (int at = 0; at < TIMES && swaps;) {
    long next = expected + 1;
    MPI_Compare_and_swap(&next, &expected, &found, MPI_LONG, 0, it->at[0], it->win);
    MPI_Win_flush(0, it->win);
    at += found == expected;
    expected = found == expected ? next : found;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Fetch_and_op(NULL, &found, MPI_LONG, 0, it->at[0], MPI_NO_OP, it->win);
  MPI_Win_flush(0, it->win);
  require(found == (1L + swaps) * ranks * TIMES, "compare and swap", 8);
  /* An exclusive lock, under which nothing else happens. */
  MPI_Win_unlock_all(it->win);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int at = 0; at < TIMES; at++) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, it->win);
    MPI_Get(&found, 1, MPI_LONG, 0, it->at[0], 1, MPI_LONG, it->win);
    MPI_Win_flush(0, it->win);
    found++;
    MPI_Put(&found, 1, MPI_LONG, 0, it->at[0], 1, MPI_LONG, it->win);
    MPI_Win_unlock(0, it->win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, it->win);
  MPI_Get(&found, 1, MPI_LONG, 0, it->at[0], 1, MPI_LONG, it->win);
  MPI_Win_unlock(0, it->win);
  require(found == (2L + swaps) * ranks * TIMES, "exclusive lock", 8);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* All calls on one window, which it frees. */
static void on_window(struct window *it, int swaps) {
  int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  MPI_Group all, next, before;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &to, &next);
  MPI_Group_incl(all, 1, &from, &before);
  /* The longest by one synchronisation of each kind. */
  for (int sync = 0; sync < SYNCS; sync++)
    for (int at = 0; at < COUNT - (sync != FLUSH && sync != FENCE); at++)
      put_and_get(it, sync, SIZES[at], next, before);
  counters(it, swaps);
  MPI_Win_free(&it->win);
  MPI_Group_free(&all), MPI_Group_free(&next), MPI_Group_free(&before);
}

static void windows(void) {
  MPI_Aint at[64] = {0}, own;
  struct window it = {.at = at, .name = "win_allocate"};
  MPI_Win_allocate(MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &it.memory, &it.win);
  on_window(&it, 1);
  it.name = "win_create";
  it.memory = calloc(1, MOST);
  MPI_Win_create(it.memory, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &it.win);
  on_window(&it, 0);
  it.name = "win_create_dynamic";
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &it.win);
  MPI_Win_attach(it.win, it.memory, MOST);
  MPI_Get_address(it.memory, &own);
  MPI_Allgather(&own, 1, MPI_AINT, at, 1, MPI_AINT, MPI_COMM_WORLD);
  on_window(&it, 0);
  free(it.memory);
  if (rank == 0) puts("windows");
}

/* A request that is tested while the rank computes, as OSU's collectives that do not block are. */
static void complete(MPI_Request *request) {
  int is_done = 0;
  for (volatile int at = 0; !is_done; at++)
    if (at % 100 == 0) MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
}

#define BOTH(call, start)                     \
  do {                                        \
    if (!starts) { call; }                    \
    else {                                    \
      MPI_Request request;                    \
      start;                                  \
      complete(&request);                     \
    }                                         \
  } while (0)
#define WORLD MPI_COMM_WORLD

/* What each rank has for each: `each` bytes, of which rank `of` sends those with salt `of * 7 + to`. */
static void to_and_from_all(int each, int starts) {
  int counts[64], at[64], sizes[64];
  MPI_Datatype types[64];
  for (int to = 0; to < ranks; to++) {
    counts[to] = each, at[to] = to * each, types[to] = MPI_BYTE, sizes[to] = to * each;
    fill(out + to * each, each, rank * 7 + to);
  }
  for (int call = 0; call < 3; call++) {
    memset(in, 0, ranks * each);
    if (call == 0)
      BOTH(MPI_Alltoall(out, each, MPI_BYTE, in, each, MPI_BYTE, WORLD),
           MPI_Ialltoall(out, each, MPI_BYTE, in, each, MPI_BYTE, WORLD, &request));
    else if (call == 1)
      BOTH(MPI_Alltoallv(out, counts, at, MPI_BYTE, in, counts, at, MPI_BYTE, WORLD),
           MPI_Ialltoallv(out, counts, at, MPI_BYTE, in, counts, at, MPI_BYTE, WORLD, &request));
    else
      BOTH(MPI_Alltoallw(out, counts, sizes, types, in, counts, sizes, types, WORLD),
           MPI_Ialltoallw(out, counts, sizes, types, in, counts, sizes, types, WORLD, &request));
    for (int from = 0; from < ranks; from++) check(in + from * each, each, from * 7 + rank, "alltoall");
  }
  for (int call = 0; call < 2; call++) {
    memset(in, 0, ranks * each);
    fill(out, each, rank);
    if (call == 0)
      BOTH(MPI_Allgather(out, each, MPI_BYTE, in, each, MPI_BYTE, WORLD),
           MPI_Iallgather(out, each, MPI_BYTE, in, each, MPI_BYTE, WORLD, &request));
    else
      BOTH(MPI_Allgatherv(out, each, MPI_BYTE, in, counts, at, MPI_BYTE, WORLD),
           MPI_Iallgatherv(out, each, MPI_BYTE, in, counts, at, MPI_BYTE, WORLD, &request));
    for (int from = 0; from < ranks; from++) check(in + from * each, each, from, "allgather");
  }
}

/* The calls with a root. */
static void with_a_root(int each, int root, int starts) {
  int counts[64], at[64];
  for (int to = 0; to < ranks; to++) counts[to] = each, at[to] = to * each;
  if (rank == root) fill(out, each, root + 3);
  else memset(out, 0, each);
  BOTH(MPI_Bcast(out, each, MPI_BYTE, root, WORLD), MPI_Ibcast(out, each, MPI_BYTE, root, WORLD, &request));
  check(out, each, root + 3, "bcast");
  for (int call = 0; call < 2; call++) {
    memset(in, 0, ranks * each);
    fill(out, each, rank + root);
    if (call == 0)
      BOTH(MPI_Gather(out, each, MPI_BYTE, in, each, MPI_BYTE, root, WORLD),
           MPI_Igather(out, each, MPI_BYTE, in, each, MPI_BYTE, root, WORLD, &request));
    else
      BOTH(MPI_Gatherv(out, each, MPI_BYTE, in, counts, at, MPI_BYTE, root, WORLD),
           MPI_Igatherv(out, each, MPI_BYTE, in, counts, at, MPI_BYTE, root, WORLD, &request));
    for (int from = 0; from < ranks && rank == root; from++) check(in + from * each, each, from + root, "gather");
    memset(in, 0, each);
    for (int to = 0; to < ranks; to++) fill(out + to * each, each, to + 9);
    if (call == 0)
      BOTH(MPI_Scatter(out, each, MPI_BYTE, in, each, MPI_BYTE, root, WORLD),
           MPI_Iscatter(out, each, MPI_BYTE, in, each, MPI_BYTE, root, WORLD, &request));
    else
      BOTH(MPI_Scatterv(out, counts, at, MPI_BYTE, in, each, MPI_BYTE, root, WORLD),
           MPI_Iscatterv(out, counts, at, MPI_BYTE, in, each, MPI_BYTE, root, WORLD, &request));
    check(in, each, rank + 9, "scatter");
  }
  int words = each / 4, *add = (int *)out, *total = (int *)in;
  for (int word = 0; word < words; word++) add[word] = word + rank;
  BOTH(MPI_Reduce(add, total, words, MPI_INT, MPI_SUM, root, WORLD),
       MPI_Ireduce(add, total, words, MPI_INT, MPI_SUM, root, WORLD, &request));
  for (int word = 0; word < words && rank == root; word++)
    require(total[word] == ranks * word + ranks * (ranks - 1) / 2, "reduce", each);
}

static void reductions(int each, int starts) {
  int counts[64], words = each / 4, own = ranks * (ranks - 1) / 2, *add = (int *)out, *total = (int *)in;
  for (int word = 0; word < words * ranks; word++) add[word] = word + rank;
  for (int to = 0; to < ranks; to++) counts[to] = words;
  BOTH(MPI_Allreduce(add, total, words, MPI_INT, MPI_SUM, WORLD),
       MPI_Iallreduce(add, total, words, MPI_INT, MPI_SUM, WORLD, &request));
  for (int word = 0; word < words; word++) require(total[word] == ranks * word + own, "allreduce", each);
  BOTH(MPI_Reduce_scatter(add, total, counts, MPI_INT, MPI_SUM, WORLD),
       MPI_Ireduce_scatter(add, total, counts, MPI_INT, MPI_SUM, WORLD, &request));
  for (int word = 0; word < words; word++)
    require(total[word] == ranks * (rank * words + word) + own, "reduce_scatter", each);
  BOTH(MPI_Reduce_scatter_block(add, total, words, MPI_INT, MPI_SUM, WORLD),
       MPI_Ireduce_scatter_block(add, total, words, MPI_INT, MPI_SUM, WORLD, &request));
  for (int word = 0; word < words; word++)
    require(total[word] == ranks * (rank * words + word) + own, "reduce_scatter_block", each);
  BOTH(MPI_Scan(add, total, words, MPI_INT, MPI_SUM, WORLD),
       MPI_Iscan(add, total, words, MPI_INT, MPI_SUM, WORLD, &request));
  for (int word = 0; word < words; word++)
    require(total[word] == (rank + 1) * word + rank * (rank + 1) / 2, "scan", each);
  BOTH(MPI_Barrier(WORLD), MPI_Ibarrier(WORLD, &request));
}

/* osu_neighbor_*: the ranks on a circle. */
static void neighbours(int each, int starts) {
  int dims[1] = {ranks}, periods[1] = {1}, before, next;
  MPI_Comm circle;
  MPI_Cart_create(WORLD, 1, dims, periods, 0, &circle);
  MPI_Cart_shift(circle, 0, 1, &before, &next);
  fill(out, each, rank);
  BOTH(MPI_Neighbor_allgather(out, each, MPI_BYTE, in, each, MPI_BYTE, circle),
       MPI_Ineighbor_allgather(out, each, MPI_BYTE, in, each, MPI_BYTE, circle, &request));
  check(in, each, before, "neighbor_allgather");
  check(in + each, each, next, "neighbor_allgather");
  fill(out + each, each, rank);
  BOTH(MPI_Neighbor_alltoall(out, each, MPI_BYTE, in, each, MPI_BYTE, circle),
       MPI_Ineighbor_alltoall(out, each, MPI_BYTE, in, each, MPI_BYTE, circle, &request));
  check(in, each, before, "neighbor_alltoall");
  check(in + each, each, next, "neighbor_alltoall");
  MPI_Comm_free(&circle);
}

static void messages(void) {
  for (int at = 0; at < COUNT && has_partner(); at++) windows_of_messages(SIZES[at]), persistent(SIZES[at]);
  if (has_partner()) threads();
  MPI_Barrier(WORLD);
  if (rank == 0) puts("point to point");
  for (int starts = 0; starts < 2; starts++) {
    for (int at = 0; at < COUNT; at++) {
      int each = SIZES[at] > MOST / ranks ? MOST / ranks : SIZES[at];
      if (each == 8192) continue;
      to_and_from_all(each, starts);
      with_a_root(each, 0, starts);
      with_a_root(each, ranks - 1, starts);
      reductions(each, starts);
      neighbours(each, starts);
    }
  }
  if (rank == 0) puts("collectives");
}

int main(int count, char **words) {
  int given;
  MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &given);
  MPI_Comm_rank(WORLD, &rank);
  MPI_Comm_size(WORLD, &ranks);
  require(given == MPI_THREAD_MULTIPLE && ranks <= 8, "MPI_THREAD_MULTIPLE and up to 8 ranks", 0);
  out = calloc(ranks, MOST), in = calloc(ranks, MOST);
  if (count < 2 || !strcmp(words[1], "messages")) messages();
  if (count < 2 || !strcmp(words[1], "windows")) windows();
  free(out), free(in);
  MPI_Finalize();
  return 0;
}
