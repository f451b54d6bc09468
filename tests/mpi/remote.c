/* What libfabric's manual pages say of remote memory access, between two processes: fi_rma(3), fi_atomic(3), fi_mr(3).
 * With an argument it measures instead: bytes a second of reads and writes. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 300000, NAME = 64 };
static int is_child, to_other, from_other;
static char window[4 * LONG] __attribute__((aligned(64))), here[2 * LONG], closed[64];
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fi_info *info;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_cntr *reads, *writes;
static fi_addr_t other;
/* The window of the other process: its address, and its keys. */
static uint64_t base, key, read_only, revoked;

static void require(int is_so, int line, const char *what) {
  if (!is_so) fprintf(stderr, "%s, line %d: %s\n", is_child ? "child" : "parent", line, what), exit(1);
}

#define REQUIRE(is_so) require((is_so), __LINE__, #is_so)
#define CHECK(call) REQUIRE((call) == 0)

static void swap(const void *own, void *others, size_t length) {
  REQUIRE(write(to_other, own, length) == (ssize_t)length);
  REQUIRE(read(from_other, others, length) == (ssize_t)length);
}

/* Both processes have come so far. The target makes progress meanwhile, since it has to carry requests out. */
static void meet(void) {
  char byte = 1;
  swap(&byte, &byte, 1);
}

static void open_all(int mr_mode, uint64_t selective) {
  struct fi_info *hints = fi_allocinfo();
  hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = mr_mode;
  hints->fabric_attr->prov_name = strdup("weft");
  /* A program that serialises all calls, as this one does, may say so: then short messages take a way of their own. */
  const char *threading = getenv("WEFT_TEST_THREADING");
  int is_serial = threading && !strcmp(threading, "domain");
  if (is_serial) hints->domain_attr->threading = FI_THREAD_DOMAIN;
  CHECK(fi_getinfo(FI_VERSION(1, mr_mode == FI_MR_BASIC ? 4 : 9), NULL, NULL, 0, hints, &info));
  REQUIRE(info->domain_attr->threading == (is_serial ? FI_THREAD_DOMAIN : FI_THREAD_SAFE));
  fi_freeinfo(hints);
  REQUIRE((info->caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)) ==
          (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE));
  REQUIRE(info->tx_attr->rma_iov_limit == 4 && info->domain_attr->mr_iov_limit == 1);
  REQUIRE((mr_mode == FI_MR_BASIC) == (info->domain_attr->mr_mode == FI_MR_BASIC));
  CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
  CHECK(fi_domain(fabric, info, &domain, NULL));
  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC};
  struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
  struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_UNSPEC};
  CHECK(fi_endpoint(domain, info, &ep, NULL));
  CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
  CHECK(fi_av_open(domain, &av_attr, &av, NULL));
  CHECK(fi_cntr_open(domain, &cntr, &reads, NULL));
  CHECK(fi_cntr_open(domain, &cntr, &writes, NULL));
  CHECK(fi_ep_bind(ep, &av->fid, 0));
  CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | selective));
  CHECK(fi_ep_bind(ep, &reads->fid, FI_READ));
  CHECK(fi_ep_bind(ep, &writes->fid, FI_WRITE));
  REQUIRE(fi_ep_bind(ep, &writes->fid, FI_REMOTE_WRITE) == -FI_EINVAL);
  REQUIRE(fi_read(ep, here, 1, NULL, 0, 0, 0, NULL) == -FI_EOPBADSTATE);
  CHECK(fi_enable(ep));
  char own[NAME] = {0}, name[NAME];
  size_t length = NAME;
  CHECK(fi_getname(&ep->fid, own, &length));
  swap(own, name, NAME);
  REQUIRE(fi_av_insert(av, name, 1, &other, 0, NULL) == 1);
}

static struct fid_mr *all_region, *read_region;

static void register_all(void) {
  struct fid_mr *old;
  struct iovec two[2] = {{window, 8}, {window + 16, 8}};
  CHECK(fi_mr_reg(domain, window, sizeof window, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 42, 0, &all_region, NULL));
  CHECK(fi_mr_reg(domain, window, 4096, FI_REMOTE_READ, 0, 43, 0, &read_region, NULL));
  CHECK(fi_mr_reg(domain, closed, sizeof closed, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 44, 0, &old, NULL));
  REQUIRE(fi_mr_regv(domain, two, 2, FI_REMOTE_READ, 0, 45, 0, &old, NULL) == -FI_EINVAL);
  int is_basic = info->domain_attr->mr_mode == FI_MR_BASIC;
  struct fid_mr *again;
  if (!is_basic) {
    REQUIRE(fi_mr_key(all_region) == 42);
    REQUIRE(fi_mr_reg(domain, here, 8, FI_REMOTE_READ, 0, 42, 0, &again, NULL) == -FI_ENOKEY);
  }
  uint64_t own[4] = {is_basic ? (uint64_t)window : 0, fi_mr_key(all_region), fi_mr_key(read_region), fi_mr_key(old)};
  CHECK(fi_close(&old->fid));
  uint64_t theirs[4];
  swap(own, theirs, sizeof own);
  base = theirs[0], key = theirs[1], read_only = theirs[2], revoked = theirs[3];
}

static void close_all(void) {
  REQUIRE(fi_close(&domain->fid) == -FI_EBUSY);
  CHECK(fi_close(&ep->fid));
  CHECK(fi_close(&cq->fid));
  CHECK(fi_close(&av->fid));
  CHECK(fi_close(&reads->fid));
  CHECK(fi_close(&writes->fid));
  REQUIRE(fi_close(&domain->fid) == -FI_EBUSY);
  CHECK(fi_close(&all_region->fid));
  CHECK(fi_close(&read_region->fid));
  CHECK(fi_close(&domain->fid));
  CHECK(fi_close(&fabric->fid));
  fi_freeinfo(info);
}

static struct fi_cq_data_entry completion(void) {
  struct fi_cq_data_entry entry = {0};
  REQUIRE(fi_cq_sread(cq, &entry, 1, NULL, 20000) == 1);
  return entry;
}

static int failure(void) {
  struct fi_cq_data_entry entry;
  struct fi_cq_err_entry error = {0};
  REQUIRE(fi_cq_sread(cq, &entry, 1, NULL, 20000) == -FI_EAVAIL);
  REQUIRE(fi_cq_readerr(cq, &error, 0) == 1);
  return error.err;
}

/* The target serves until the initiator says that it has done. */
static void serve(void) {
  struct fi_cq_data_entry entry = {0};
  do REQUIRE(fi_cq_sread(cq, &entry, 1, NULL, 20000) == 1);
  while (entry.data != 999);
}

static void done(void) {
  CHECK(fi_inject_writedata(ep, here, 0, 999, other, base, key));
}

static char pattern(size_t at, int salt) { return (char)(at * 7 + at / 251 + salt); }

static void fill(char *to, size_t length, int salt) {
  for (size_t at = 0; at < length; at++) to[at] = pattern(at, salt);
}

static void accesses(void) {
  struct fi_context one, two;
  size_t lengths[] = {0, 1, 8, 100, 4096, 8192, 8193, 100000, LONG};
  int count = sizeof lengths / sizeof *lengths;
  uint64_t wrote = 0, got = 0;
  if (is_child) return serve();
  for (int at = 0; at < count; at++) {
    size_t length = lengths[at];
    fill(here, length, at);
    CHECK(fi_write(ep, here, length, NULL, other, base + 5, key, &one));
    struct fi_cq_data_entry entry = completion();
    REQUIRE(entry.op_context == &one && entry.flags == (FI_RMA | FI_WRITE));
    memset(here + LONG, 0, length + 1);
    CHECK(fi_read(ep, here + LONG, length, NULL, other, base + 5, key, &two));
    entry = completion();
    REQUIRE(entry.op_context == &two && entry.flags == (FI_RMA | FI_READ));
    REQUIRE(!memcmp(here, here + LONG, length) && here[LONG + length] == 0);
    wrote++, got++;
  }
  /* Vectors on both sides. */
  struct iovec from[2] = {{here, 10}, {here + 100, 20000}}, to[3] = {{here + LONG, 1}, {here + LONG + 1, 0}, {here + LONG + 1, 20009}};
  fill(here, 30000, 3);
  CHECK(fi_writev(ep, from, NULL, 2, other, base, key, &one));
  REQUIRE(completion().op_context == &one);
  CHECK(fi_readv(ep, to, NULL, 3, other, base, key, &two));
  REQUIRE(completion().op_context == &two);
  REQUIRE(!memcmp(here, here + LONG, 10) && !memcmp(here + 100, here + LONG + 10, 20000));
  struct fi_rma_iov ranges[3] = {{base + 1000, 4, key}, {base + 2000, 5, key}, {base + 3000, 1, key}};
  struct fi_msg_rma message = {.msg_iov = from, .iov_count = 1, .addr = other, .rma_iov = ranges, .rma_iov_count = 3, .context = &one, .data = 7};
  CHECK(fi_writemsg(ep, &message, FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_INJECT));
  memset(here, 0, 10), REQUIRE(completion().op_context == &one);
  message.msg_iov = to, message.iov_count = 3;
  to[2].iov_len = 9;
  CHECK(fi_readmsg(ep, &message, FI_COMPLETION));
  REQUIRE(completion().op_context == &one);
  for (int at = 0; at < 10; at++) REQUIRE(here[LONG + at] == pattern(at, 3));
  wrote += 2, got += 2;
  /* Injected writes complete without a word; their bytes may be overwritten at once. */
  fill(here, 8192, 4);
  CHECK(fi_inject_write(ep, here, 8192, other, base + 777, key));
  memset(here, 0, 8192);
  CHECK(fi_cntr_wait(writes, ++wrote, 20000));
  REQUIRE(fi_inject_write(ep, here, 8193, other, base, key) == -FI_EMSGSIZE);
  CHECK(fi_read(ep, here + LONG, 8192, NULL, other, base + 777, key, &two));
  REQUIRE(completion().op_context == &two);
  for (int at = 0; at < 8192; at++) REQUIRE(here[LONG + at] == pattern(at, 4));
  CHECK(fi_cntr_wait(reads, ++got, 20000));
  REQUIRE(fi_cntr_read(reads) == got && fi_cntr_read(writes) == wrote);
  /* What is not registered, or lies outside, or is not permitted. */
  uint64_t end = base + sizeof window;
  struct { int error; uint64_t address, key; } wrong[] = {
    {FI_ENOKEY, base, 99}, {FI_ENOKEY, base, revoked}, {FI_EACCES, base, read_only}, {FI_EFAULT, end, key},
    {FI_EFAULT, end - 1, key}, {FI_EFAULT, base - 1, key}, {FI_EFAULT, UINT64_MAX - 1, key},
  };
  for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
    CHECK(fi_write(ep, here, 2, NULL, other, wrong[at].address, wrong[at].key, &one));
    REQUIRE(failure() == wrong[at].error);
    if (wrong[at].error == FI_EACCES) continue;
    CHECK(fi_read(ep, here, 2, NULL, other, wrong[at].address, wrong[at].key, &one));
    REQUIRE(failure() == wrong[at].error);
  }
  CHECK(fi_write(ep, here, 100000, NULL, other, base, read_only, &one));
  REQUIRE(failure() == FI_EACCES && fi_cntr_readerr(writes) == sizeof wrong / sizeof *wrong + 1);
  CHECK(fi_read(ep, here, 9000, NULL, other, base, read_only, &one));
  REQUIRE(failure() == FI_EFAULT);
  ranges[0].len = 3;
  REQUIRE(fi_readmsg(ep, &message, 0) == -FI_EINVAL && fi_readmsg(ep, &message, FI_INJECT) == -FI_EBADFLAGS);
  REQUIRE(fi_read(ep, here, 1, NULL, other + 9, base, key, NULL) == -FI_EINVAL);
  done();
}

/* The target's program is told of a write that brings data. */
static void immediate(void) {
  if (is_child) {
    for (uint64_t at = 0; at < 40; at++) {
      struct fi_cq_data_entry entry = {0};
      fi_addr_t source;
      REQUIRE(fi_cq_sreadfrom(cq, &entry, 1, &source, NULL, 20000) == 1 && source == other);
      REQUIRE(entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) && entry.data == at);
      REQUIRE(entry.len == at * 500 && (at == 0 || window[at * 500 - 1] == (char)at));
      CHECK(fi_inject_writedata(ep, here, 0, at, other, base, key));
    }
  } else {
    for (uint64_t at = 0; at < 40; at++) {
      memset(here, (int)at, at * 500);
      CHECK(fi_writedata(ep, here, at * 500, NULL, at, other, base, key, NULL));
      int local = 0, remote = 0;
      while (!local || !remote) {
        struct fi_cq_data_entry entry = completion();
        *(entry.flags & FI_REMOTE_WRITE ? &remote : &local) += 1;
      }
      REQUIRE(local == 1 && remote == 1);
    }
  }
  meet();
}

static void atomics(void) {
  struct fi_context one;
  size_t count;
  struct fi_atomic_attr attr;
  CHECK(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count));
  REQUIRE(count == 512);
  CHECK(fi_compare_atomicvalid(ep, FI_DOUBLE, FI_CSWAP_GE, &count));
  CHECK(fi_fetch_atomicvalid(ep, FI_INT8, FI_ATOMIC_READ, &count));
  REQUIRE(count == 4096 && fi_atomicvalid(ep, FI_LONG_DOUBLE, FI_SUM, &count) == -FI_EOPNOTSUPP);
  REQUIRE(fi_atomicvalid(ep, FI_UINT64, FI_CSWAP, &count) == -FI_EOPNOTSUPP);
  CHECK(fi_query_atomic(domain, FI_FLOAT, FI_MAX, &attr, FI_FETCH_ATOMIC));
  REQUIRE(attr.size == 4 && attr.count == 1024 && fi_query_atomic(domain, FI_FLOAT, FI_BAND, &attr, 0) < 0);
  if (is_child) return serve();
  uint64_t values[4] = {10, 20, 30, 40}, more[4] = {1, 2, 3, 4}, old[4] = {0}, compare[4] = {11, 0, 33, 0};
  CHECK(fi_atomic(ep, values, 4, NULL, other, base, key, FI_UINT64, FI_ATOMIC_WRITE, &one));
  struct fi_cq_data_entry entry = completion();
  REQUIRE(entry.op_context == &one && entry.flags == (FI_ATOMIC | FI_WRITE));
  CHECK(fi_fetch_atomic(ep, more, 4, NULL, old, NULL, other, base, key, FI_UINT64, FI_SUM, &one));
  entry = completion();
  REQUIRE(entry.flags == (FI_ATOMIC | FI_READ) && !memcmp(old, values, sizeof old));
  CHECK(fi_compare_atomic(ep, more, 4, NULL, compare, NULL, old, NULL, other, base, key, FI_UINT64, FI_CSWAP, &one));
  completion();
  REQUIRE(old[0] == 11 && old[1] == 22 && old[2] == 33 && old[3] == 44);
  CHECK(fi_fetch_atomic(ep, NULL, 4, NULL, old, NULL, other, base, key, FI_UINT64, FI_ATOMIC_READ, &one));
  completion();
  REQUIRE(old[0] == 1 && old[1] == 22 && old[2] == 3 && old[3] == 44);
  CHECK(fi_inject_atomic(ep, values, 2, other, base + 8, key, FI_UINT64, FI_MAX));
  struct fi_ioc from[2] = {{values, 1}, {values + 2, 1}}, to[2] = {{old, 1}, {old + 3, 1}}, with[1] = {{compare, 2}};
  struct fi_rma_ioc ranges[2] = {{base, 1, key}, {base + 24, 1, key}};
  struct fi_msg_atomic message = {.msg_iov = from, .iov_count = 2, .addr = other, .rma_iov = ranges, .rma_iov_count = 2, .datatype = FI_INT64, .op = FI_PROD, .context = &one};
  CHECK(fi_atomicmsg(ep, &message, FI_COMPLETION)), completion();
  CHECK(fi_fetch_atomicmsg(ep, &message, to, NULL, 2, FI_COMPLETION)), completion();
  REQUIRE(old[0] == 10 && old[3] == 44 * 30);
  compare[0] = 100, message.op = FI_CSWAP_LE;
  CHECK(fi_compare_atomicmsg(ep, &message, with, NULL, 1, to, NULL, 2, FI_COMPLETION)), completion();
  REQUIRE(old[0] == 100 && old[3] == 44 * 30 * 30);
  CHECK(fi_fetch_atomicv(ep, from, NULL, 2, to, NULL, 2, other, base, key, FI_UINT64, FI_BOR, &one)), completion();
  REQUIRE(old[0] == 10 && old[3] == 22);
  CHECK(fi_compare_atomicv(ep, from, NULL, 2, with, NULL, 1, to, NULL, 2, other, base, key, FI_UINT64, FI_MSWAP, &one)), completion();
  REQUIRE(old[0] == 10 && old[3] == 30);
  CHECK(fi_atomicv(ep, from, NULL, 2, other, base, key, FI_UINT64, FI_BXOR, &one)), completion();
  REQUIRE(fi_atomic(ep, values, 1, NULL, other, base, key, FI_LONG_DOUBLE, FI_SUM, &one) == -FI_EOPNOTSUPP);
  REQUIRE(fi_atomic(ep, here, 513, NULL, other, base, key, FI_UINT64, FI_SUM, &one) == -FI_EMSGSIZE);
  CHECK(fi_atomic(ep, values, 1, NULL, other, base + 4, key, FI_UINT64, FI_SUM, &one));
  REQUIRE(failure() == FI_EINVAL);
  CHECK(fi_fetch_atomic(ep, values, 1, NULL, old, NULL, other, base, read_only, FI_UINT64, FI_SUM, &one));
  REQUIRE(failure() == FI_EACCES);
  /* More than there is room for at once: all arrive, each once. */
  uint64_t zero = 0, increment = 1;
  CHECK(fi_atomic(ep, &zero, 1, NULL, other, base + 64, key, FI_UINT64, FI_ATOMIC_WRITE, &one)), completion();
  uint64_t before = fi_cntr_read(writes);
  for (int sent = 0; sent < 5000;) {
    ssize_t posted = fi_inject_atomic(ep, &increment, 1, other, base + 64, key, FI_UINT64, FI_SUM);
    REQUIRE(posted == 0 || posted == -FI_EAGAIN);
    if (posted == 0) sent++;
    else fi_cntr_read(writes);
  }
  CHECK(fi_cntr_wait(writes, before + 5000, 20000));
  CHECK(fi_fetch_atomic(ep, NULL, 1, NULL, old, NULL, other, base + 64, key, FI_UINT64, FI_ATOMIC_READ, &one)), completion();
  REQUIRE(old[0] == 5000);
  done();
}

/* Many accesses at once, in both directions. */
static void crowd(void) {
  enum { MANY = 2000, EACH = 20000 };
  int posted = 0, finished = 0, other_has_done = 0;
  while (finished < MANY) {
    if (posted < MANY) {
      char *at = here + posted % 10 * EACH;
      uint64_t address = base + (uint64_t)(posted % 10) * EACH;
      size_t length = posted % 3 == 0 ? EACH : 200;
      ssize_t started = posted % 2 ? fi_write(ep, at, length, NULL, other, address, key, NULL)
                                   : fi_read(ep, at, length, NULL, other, address, key, NULL);
      REQUIRE(started == 0 || started == -FI_EAGAIN);
      posted += started == 0;
    }
    struct fi_cq_data_entry entries[16];
    ssize_t got = fi_cq_read(cq, entries, 16);
    REQUIRE(got > 0 || got == -FI_EAGAIN);
    for (int at = 0; at < got; at++) *(entries[at].flags & FI_REMOTE_WRITE ? &other_has_done : &finished) += 1;
  }
  done();
  if (!other_has_done) serve();
  meet();
}

static void measure(void) {
  if (is_child) return serve();
  for (size_t length = 8; length <= LONG; length *= 8) {
    double seconds[2];
    for (int is_read = 0; is_read < 2; is_read++) {
      struct timespec begin, end;
      enum { TIMES = 2000 };
      clock_gettime(CLOCK_MONOTONIC, &begin);
      for (int posted = 0, finished = 0; finished < TIMES;) {
        if (posted < TIMES && posted - finished < 64) {
          ssize_t started = is_read ? fi_read(ep, here, length, NULL, other, base, key, NULL)
                                    : fi_write(ep, here, length, NULL, other, base, key, NULL);
          posted += started == 0;
        }
        struct fi_cq_data_entry entries[16];
        ssize_t got = fi_cq_read(cq, entries, 16);
        finished += got > 0 ? got : 0;
      }
      clock_gettime(CLOCK_MONOTONIC, &end);
      seconds[is_read] = (end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) * 1e-9) / TIMES;
    }
    printf("%8zu B: write %9.3f us %9.1f MB/s, read %9.3f us %9.1f MB/s\n", length, seconds[0] * 1e6,
           length / seconds[0] / 1e6, seconds[1] * 1e6, length / seconds[1] / 1e6);
  }
  done();
}

int main(int argc, char **argv) {
  (void)argv;
  int down[2], up[2];
  REQUIRE(pipe(down) == 0 && pipe(up) == 0);
  pid_t child = fork();
  is_child = child == 0;
  to_other = is_child ? up[1] : down[1];
  from_other = is_child ? down[0] : up[0];
  close(is_child ? up[0] : down[0]), close(is_child ? down[1] : up[1]);
  for (int mode = 0; mode <= 1; mode++) {
    open_all(mode ? FI_MR_BASIC : FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED, 0);
    register_all();
    if (argc > 1) {
      if (!mode) measure();
    } else {
      accesses(), meet();
      immediate();
      atomics(), meet();
      crowd();
    }
    close_all();
    meet();
  }
  if (is_child) _exit(0);
  int status;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (argc == 1) puts("all as the manual pages say");
  return 0;
}
