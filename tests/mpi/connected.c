/* What libfabric's manual pages say of connections, between two processes: fi_cm(3), fi_eq(3), fi_endpoint(3). */
#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 200000, NAME = 64 };
static int is_child, to_other, from_other;
static char in[LONG], out[LONG], window[LONG];
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_pep *pep;
static struct fid_cq *cq;
static struct fid_mr *region;
static struct fi_info *info;

static void require(int is_so, int line, const char *what) {
  if (!is_so) fprintf(stderr, "%s, line %d: %s\n", is_child ? "child" : "parent", line, what), exit(1);
}

#define REQUIRE(is_so) require((is_so), __LINE__, #is_so)
#define CHECK(call) REQUIRE((call) == 0)

static void swap(const void *own, void *others, size_t length) {
  REQUIRE(write(to_other, own, length) == (ssize_t)length);
  REQUIRE(read(from_other, others, length) == (ssize_t)length);
}

static void meet(void) {
  char byte = 1;
  swap(&byte, &byte, 1);
}

struct event {
  struct fi_eq_cm_entry entry;
  char data[300];
};

/* The next event, with how much data it has. */
static size_t event(uint32_t expected, struct event *it) {
  uint32_t number = 99;
  ssize_t got = fi_eq_sread(eq, &number, it, sizeof *it, 20000, 0);
  REQUIRE(got >= (ssize_t)sizeof it->entry && number == expected);
  return got - sizeof it->entry;
}

static struct fid_ep *new_endpoint(struct fi_info *of) {
  struct fid_ep *ep;
  CHECK(fi_endpoint(domain, of, &ep, NULL));
  CHECK(fi_ep_bind(ep, &eq->fid, 0));
  CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
  CHECK(fi_enable(ep));
  return ep;
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

/* Connects, or accepts; both ends pass data. */
static struct fid_ep *connected(const char *name, struct fid_ep **early) {
  struct event it;
  struct fid_ep *ep;
  if (is_child) {
    ep = new_endpoint(info);
    if (early) CHECK(fi_recv(ep, in, LONG, NULL, 0, NULL));
    REQUIRE(fi_send(ep, out, 1, NULL, 0, NULL) == -FI_ENOTCONN);
    REQUIRE(fi_connect(ep, name, out, 257) == -FI_EINVAL);
    CHECK(fi_connect(ep, name, "please", 7));
    REQUIRE(event(FI_CONNECTED, &it) == 8 && !strcmp(it.data, "welcome"));
  } else {
    uint32_t number;
    char small[4];
    REQUIRE(event(FI_CONNREQ, &it) == 7 && !strcmp(it.data, "please") && it.entry.fid == &pep->fid);
    REQUIRE(it.entry.info->ep_attr->type == FI_EP_MSG && it.entry.info->handle != NULL);
    ep = new_endpoint(it.entry.info);
    fi_freeinfo(it.entry.info);
    REQUIRE(fi_eq_read(eq, &number, small, 4, 0) == -FI_EAGAIN);
    CHECK(fi_accept(ep, "welcome", 8));
    REQUIRE(fi_accept(ep, NULL, 0) == -FI_EOPBADSTATE);
    REQUIRE(fi_eq_read(eq, &number, small, 4, 0) == -FI_ETOOSMALL);
    REQUIRE(event(FI_CONNECTED, &it) == 0);
  }
  REQUIRE(it.entry.fid == &ep->fid);
  char own[NAME] = {0}, other[NAME], peer[NAME] = {0};
  size_t length = NAME;
  CHECK(fi_getname(&ep->fid, own, &length));
  length = NAME;
  CHECK(fi_getpeer(ep, peer, &length));
  swap(own, other, NAME);
  REQUIRE(length == 32 && !memcmp(peer, other, NAME));
  return ep;
}

/* Sends that come before their receives wait for them, and both sides complete in order; a receive is cancelled. */
static void in_order(struct fid_ep *ep) {
  size_t lengths[] = {8, LONG, 5};
  char *places[] = {in, window, in + 64};
  static long contexts[4];
  if (!is_child) {
    for (int at = 0; at < 3; at++) CHECK(fi_send(ep, out, lengths[at], NULL, 0, &contexts[at]));
    REQUIRE(completion().op_context == &contexts[0]);
    struct fi_cq_data_entry entry;
    for (int at = 0; at < 100; at++) REQUIRE(fi_cq_read(cq, &entry, 1) == -FI_EAGAIN);
    meet();
    for (int at = 1; at < 3; at++) REQUIRE(completion().op_context == &contexts[at]);
  } else {
    CHECK(fi_cancel(&ep->fid, NULL));
    REQUIRE(failure() == FI_ECANCELED);
    REQUIRE(fi_trecv(ep, in, 8, NULL, 0, 1, 0, NULL) == -FI_ENOSYS);
    CHECK(fi_recv(ep, in, 4, NULL, 0, &contexts[0]));
    REQUIRE(failure() == FI_ETRUNC);
    meet();
    for (int at = 1; at < 3; at++) CHECK(fi_recv(ep, places[at], lengths[at], NULL, 0, &contexts[at]));
    for (int at = 1; at < 3; at++) {
      struct fi_cq_data_entry entry = completion();
      REQUIRE(entry.op_context == &contexts[at] && entry.len == lengths[at] && !memcmp(places[at], out, lengths[at]));
    }
    CHECK(fi_recv(ep, in, LONG, NULL, 0, NULL));
  }
  meet();
}

static void messages(struct fid_ep *ep) {
  for (int at = 0; at < LONG; at++) out[at] = at % 251;
  size_t lengths[] = {1, 8, 8192, LONG};
  for (int at = 0; at < 4; at++) {
    if (is_child) {
      REQUIRE(completion().len == lengths[at] && !memcmp(in, out, lengths[at]));
      CHECK(fi_recv(ep, in, LONG, NULL, 0, NULL));
    }
    if (!is_child) {
      CHECK(fi_send(ep, out, lengths[at], NULL, 0, NULL));
      REQUIRE(completion().flags == (FI_SEND | FI_MSG));
    }
    meet();
  }
  struct { uint64_t address, key; } own = {0, fi_mr_key(region)}, other;
  swap(&own, &other, sizeof own);
  if (!is_child) {
    CHECK(fi_write(ep, out, LONG, NULL, 0, other.address, other.key, NULL));
    REQUIRE(completion().flags == (FI_RMA | FI_WRITE));
    CHECK(fi_inject_writedata(ep, out, 8, 5, 0, other.address, other.key));
  } else {
    struct fi_cq_data_entry entry = completion();
    REQUIRE(entry.data == 5 && entry.len == 8 && !memcmp(window, out, LONG));
  }
  meet();
}

int main(void) {
  int down[2], up[2];
  REQUIRE(pipe(down) == 0 && pipe(up) == 0);
  pid_t child = fork();
  is_child = child == 0;
  to_other = is_child ? up[1] : down[1];
  from_other = is_child ? down[0] : up[0];
  close(is_child ? up[0] : down[0]), close(is_child ? down[1] : up[1]);
  struct fi_info *hints = fi_allocinfo();
  hints->caps = FI_MSG | FI_RMA;
  hints->ep_attr->type = FI_EP_MSG;
  hints->fabric_attr->prov_name = strdup("weft");
  /* A program that serialises all calls, as this one does, may say so: then short messages take a way of their own. */
  const char *threading = getenv("WEFT_TEST_THREADING");
  int is_serial = threading && !strcmp(threading, "domain");
  if (is_serial) hints->domain_attr->threading = FI_THREAD_DOMAIN;
  CHECK(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info));
  REQUIRE(info->domain_attr->threading == (is_serial ? FI_THREAD_DOMAIN : FI_THREAD_SAFE));
  REQUIRE(info->next == NULL && info->ep_attr->type == FI_EP_MSG);
  struct fi_info *none;
  hints->caps = FI_TAGGED;
  REQUIRE(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &none) == -FI_ENODATA);
  CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
  CHECK(fi_domain(fabric, info, &domain, NULL));
  struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC};
  CHECK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
  CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
  CHECK(fi_mr_reg(domain, window, LONG, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 9, 0, &region, NULL));
  char own[NAME] = {0}, name[NAME];
  size_t length = NAME;
  if (!is_child) {
    CHECK(fi_passive_ep(fabric, info, &pep, NULL));
    REQUIRE(fi_listen(pep) == -FI_EOPBADSTATE);
    CHECK(fi_pep_bind(pep, &eq->fid, 0));
    CHECK(fi_getname(&pep->fid, own, &length));
    size_t most, room = sizeof most;
    CHECK(fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &most, &room));
    REQUIRE(most == 256);
    CHECK(fi_listen(pep));
  }
  swap(own, name, NAME);
  /* A rejection brings its data. */
  struct event it;
  uint32_t number;
  if (is_child) {
    struct fid_ep *ep = new_endpoint(info);
    CHECK(fi_connect(ep, name, NULL, 0));
    REQUIRE(fi_eq_sread(eq, &number, &it, sizeof it, 20000, 0) == -FI_EAVAIL);
    char why[8] = {0};
    struct fi_eq_err_entry error = {.err_data = why, .err_data_size = sizeof why};
    REQUIRE(fi_eq_readerr(eq, &error, 0) == sizeof error);
    REQUIRE(error.err == FI_ECONNREFUSED && error.fid == &ep->fid && error.err_data_size == 3 && !strcmp(why, "no"));
    CHECK(fi_close(&ep->fid));
  } else {
    int fd;
    struct fid *waited[1] = {&eq->fid};
    CHECK(fi_control(&eq->fid, FI_GETWAIT, &fd));
    if (fi_trywait(fabric, waited, 1) == 0) {
      struct pollfd asked = {fd, POLLIN, 0};
      REQUIRE(poll(&asked, 1, 20000) == 1);
    }
    REQUIRE(event(FI_CONNREQ, &it) == 0);
    CHECK(fi_reject(pep, it.entry.info->handle, "no", 3));
    fi_freeinfo(it.entry.info);
  }
  meet();
  /* A connection, whose end the other is told of, with what was under way. */
  struct fid_ep *ep = connected(name, &ep);
  messages(ep);
  in_order(ep);
  if (!is_child) {
    CHECK(fi_shutdown(ep, 0));
    REQUIRE(fi_send(ep, out, 1, NULL, 0, NULL) == -FI_ENOTCONN);
  } else {
    REQUIRE(event(FI_SHUTDOWN, &it) == 0 && it.entry.fid == &ep->fid);
    REQUIRE(failure() == FI_ECONNRESET);
  }
  CHECK(fi_close(&ep->fid));
  meet();
  /* The end of a process ends its connection. */
  ep = connected(name, NULL);
  if (is_child) raise(SIGKILL);
  CHECK(fi_recv(ep, in, LONG, NULL, 0, NULL));
  REQUIRE(event(FI_SHUTDOWN, &it) == 0);
  REQUIRE(failure() == FI_ECONNRESET);
  CHECK(fi_close(&ep->fid));
  int status;
  REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  /* Whoever opens an endpoint next removes what the killed process left. */
  ep = new_endpoint(info);
  CHECK(fi_close(&ep->fid));
  CHECK(fi_close(&pep->fid));
  CHECK(fi_close(&region->fid));
  CHECK(fi_close(&cq->fid));
  CHECK(fi_close(&domain->fid));
  CHECK(fi_close(&eq->fid));
  CHECK(fi_close(&fabric->fid));
  puts("all as the manual pages say");
  return 0;
}
