/* Processes that send to each other by libfabric, without MPI or a launcher, until one is killed. Each that is left
 * must be told of it by an error of what it has under way with that one, and goes on with the others. */
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8, LONG = 300000, NAME = 64 };
#define CHECK(call)                                                   \
  do {                                                                \
    long result = (call);                                             \
    if (result < 0) fprintf(stderr, "%s: %ld\n", #call, result), _exit(3); \
  } while (0)

static struct shared {
  char names[MOST][NAME];
  volatile int are_named, are_running, victim;
  volatile double killed, told[MOST];
  volatile long messages[MOST];
} *shared;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static void run(int own, int all) {
  struct fi_info *hints = fi_allocinfo(), *info;
  struct fid_fabric *fabric;
  struct fid_domain *domain;
  struct fid_ep *endpoint;
  struct fid_cq *queue;
  struct fid_av *vector;
  hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = strdup("weft");
  /* A process that serialises all calls, as these do, may say so: then short messages take a way of their own. */
  const char *threading = getenv("WEFT_TEST_THREADING");
  int is_serial = threading && !strcmp(threading, "domain");
  if (is_serial) hints->domain_attr->threading = FI_THREAD_DOMAIN;
  CHECK(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info));
  if (info->domain_attr->threading != (is_serial ? FI_THREAD_DOMAIN : FI_THREAD_SAFE)) _exit(8);
  CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
  CHECK(fi_domain(fabric, info, &domain, NULL));
  CHECK(fi_endpoint(domain, info, &endpoint, NULL));
  struct fi_cq_attr queue_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
  struct fi_av_attr vector_attr = {.type = FI_AV_TABLE};
  CHECK(fi_cq_open(domain, &queue_attr, &queue, NULL));
  CHECK(fi_av_open(domain, &vector_attr, &vector, NULL));
  CHECK(fi_ep_bind(endpoint, &queue->fid, FI_SEND | FI_RECV));
  CHECK(fi_ep_bind(endpoint, &vector->fid, 0));
  CHECK(fi_enable(endpoint));
  size_t length = NAME;
  CHECK(fi_getname(&endpoint->fid, shared->names[own], &length));
  __sync_fetch_and_add(&shared->are_named, 1);
  while (shared->are_named < all) usleep(100);
  fi_addr_t others[MOST];
  for (int it = 0; it < all; it++) CHECK(fi_av_insert(vector, shared->names[it], 1, &others[it], 0, NULL) - 1);

  /* One receive and one send are under way with each other process, of a length that changes. */
  static struct fi_context receives[MOST], sends[MOST];
  static char in[MOST][LONG], out[LONG];
  int lost[MOST] = {0}, are_lost = 0;
  unsigned random = own * 7919 + getpid();
#define RECEIVE(it) fi_trecv(endpoint, in[it], LONG, NULL, others[it], 1, 0, &receives[it])
#define SEND(it) \
  (random = random * 1103515245 + 12345, \
   fi_tsend(endpoint, out, (random >> 8) % 3 ? 100 : LONG, NULL, others[it], 1, &sends[it]))
  int owed[MOST] = {0};
  for (int it = 0; it < all; it++)
    if (it != own) {
      CHECK(RECEIVE(it));
      owed[it] = 1;
    }
  __sync_fetch_and_add(&shared->are_running, 1);
  double begin = now();
  while (!are_lost || now() - shared->killed < 0.3) {
    if (now() - begin > 60) fprintf(stderr, "process %d was never told\n", own), _exit(4);
    for (int it = 0; it < all; it++) {
      if (!owed[it] || lost[it]) continue;
      long result = SEND(it);
      if (result == 0) owed[it] = 0;
      else if (result != -FI_EAGAIN) {
        if (!are_lost++) shared->told[own] = now();
        lost[it] = 1;
      }
    }
    struct fi_cq_tagged_entry entry;
    long result = fi_cq_sread(queue, &entry, 1, NULL, 10);
    if (result == 1) {
      struct fi_context *context = entry.op_context;
      shared->messages[own]++;
      if (context >= receives && context < receives + MOST) {
        int from = context - receives;
        if (!lost[from] && (result = RECEIVE(from)) < 0) fprintf(stderr, "receive: %ld\n", result), _exit(5);
      } else owed[context - sends] = 1;
    } else if (result == -FI_EAVAIL) {
      struct fi_cq_err_entry error = {0};
      CHECK(fi_cq_readerr(queue, &error, 0));
      struct fi_context *context = error.op_context;
      int is_receive = context >= receives && context < receives + MOST;
      int of = is_receive ? context - receives : context - sends;
      /* Those that were told close before others do. */
      if (error.err != FI_ECONNRESET || (of != shared->victim && shared->told[of] == 0)) {
        fprintf(stderr, "process %d: error %d of process %d\n", own, error.err, of);
        _exit(6);
      }
      if (!are_lost++) shared->told[own] = now();
      lost[of] = 1;
    } else if (result != -FI_EAGAIN) fprintf(stderr, "read: %ld\n", result), _exit(7);
  }
  /* The others have been told, too, before this one closes. */
  for (int it = 0; it < all; it++)
    while (it != own && it != shared->victim && shared->told[it] == 0 && now() - begin < 60) {
      fi_cq_read(queue, NULL, 0);
      usleep(1000);
    }
  _exit(0);
}

int main(int count, char **words) {
  int all = count > 1 ? atoi(words[1]) : 4, wait_us = count > 2 ? atoi(words[2]) : 30000;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t processes[MOST];
  shared->victim = count > 3 ? atoi(words[3]) % all : 0;
  for (int it = 0; it < all; it++)
    if ((processes[it] = fork()) == 0) run(it, all);
  while (shared->are_running < all) {
    int status;
    if (waitpid(-1, &status, WNOHANG) > 0) return fprintf(stderr, "a process ended before it ran\n"), 2;
    usleep(100);
  }
  usleep(wait_us);
  shared->killed = now();
  kill(processes[shared->victim], SIGKILL);
  int failed = 0;
  double slowest = 0;
  long messages = 0;
  for (int it = 0; it < all; it++) {
    int status;
    waitpid(processes[it], &status, 0);
    if (it == shared->victim) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fprintf(stderr, "process %d ended with %x\n", it, status), failed = 1;
    double took = shared->told[it] - shared->killed;
    if (took > slowest) slowest = took;
    messages += shared->messages[it];
  }
  printf("%.6f s until the last was told, %ld messages\n", slowest, messages);
  return failed;
}
