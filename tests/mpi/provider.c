/* What libfabric's manual pages say of the calls that the provider offers, between two processes. */
#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 200000, NAME = 64 };
static int is_child, to_other, from_other;
static char in[LONG], out[LONG];
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fi_info *info;

#define REQUIRE(is_so) \
  do {                 \
    if (!(is_so)) fprintf(stderr, "%s, line %d: %s\n", is_child ? "child" : "parent", __LINE__, #is_so), exit(1); \
  } while (0)
#define CHECK(call) REQUIRE((call) == 0)

/* Both processes have come so far. */
static void meet(void) {
  char byte = 1;
  REQUIRE(write(to_other, &byte, 1) == 1 && read(from_other, &byte, 1) == 1);
}

struct end {
  struct fid_ep *ep;
  struct fid_cq *cq;
  struct fid_av *av;
  struct fid_cntr *sends, *receives;
  fi_addr_t other;
};

static struct end open_end(enum fi_cq_format format, enum fi_wait_obj wait, enum fi_av_type type, uint64_t selective) {
  struct end it;
  struct fi_cq_attr cq = {.format = format, .wait_obj = wait};
  struct fi_av_attr av = {.type = type};
  struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_UNSPEC};
  CHECK(fi_endpoint(domain, info, &it.ep, NULL));
  CHECK(fi_cq_open(domain, &cq, &it.cq, NULL));
  CHECK(fi_av_open(domain, &av, &it.av, NULL));
  CHECK(fi_cntr_open(domain, &cntr, &it.sends, NULL));
  CHECK(fi_cntr_open(domain, &cntr, &it.receives, NULL));
  REQUIRE(fi_enable(it.ep) == -FI_ENOAV);
  CHECK(fi_ep_bind(it.ep, &it.av->fid, 0));
  REQUIRE(fi_enable(it.ep) == -FI_ENOCQ);
  CHECK(fi_ep_bind(it.ep, &it.cq->fid, FI_SEND | FI_RECV | selective));
  CHECK(fi_ep_bind(it.ep, &it.sends->fid, FI_SEND));
  CHECK(fi_ep_bind(it.ep, &it.receives->fid, FI_RECV));
  REQUIRE(fi_recv(it.ep, in, 1, NULL, FI_ADDR_UNSPEC, NULL) == -FI_EOPBADSTATE);
  CHECK(fi_enable(it.ep));
  char own[NAME] = {0}, other[NAME], found[NAME];
  size_t length = 5;
  REQUIRE(fi_getname(&it.ep->fid, own, &length) == -FI_ETOOSMALL && length == 32);
  CHECK(fi_getname(&it.ep->fid, own, &length));
  REQUIRE(write(to_other, own, NAME) == NAME && read(from_other, other, NAME) == NAME);
  REQUIRE(fi_av_insert(it.av, other, 1, &it.other, 0, NULL) == 1);
  length = NAME;
  CHECK(fi_av_lookup(it.av, it.other, found, &length));
  REQUIRE(length == 32 && !memcmp(found, other, 32));
  length = NAME;
  REQUIRE(!strncmp(fi_av_straddr(it.av, other, found, &length), "weft://", 7));
  memset(found, 7, NAME);
  fi_addr_t none;
  REQUIRE(fi_av_insert(it.av, found, 1, &none, 0, NULL) == 0 && none == FI_ADDR_NOTAVAIL);
  return it;
}

static void close_end(struct end *it) {
  meet();
  REQUIRE(fi_close(&it->cq->fid) == -FI_EBUSY && fi_close(&it->av->fid) == -FI_EBUSY);
  REQUIRE(fi_close(&domain->fid) == -FI_EBUSY);
  CHECK(fi_close(&it->ep->fid));
  CHECK(fi_close(&it->cq->fid));
  CHECK(fi_close(&it->av->fid));
  CHECK(fi_close(&it->sends->fid));
  CHECK(fi_close(&it->receives->fid));
}

static struct fi_cq_tagged_entry completion(struct end *it) {
  struct fi_cq_tagged_entry entry = {0};
  REQUIRE(fi_cq_sread(it->cq, &entry, 1, NULL, 20000) == 1);
  return entry;
}

static struct fi_cq_err_entry failure(struct end *it) {
  struct fi_cq_tagged_entry entry;
  struct fi_cq_err_entry error = {0};
  REQUIRE(fi_cq_sread(it->cq, &entry, 1, NULL, 20000) == -FI_EAVAIL);
  REQUIRE(fi_cq_readerr(it->cq, &error, 0) == 1);
  REQUIRE(fi_cq_readerr(it->cq, &error, 0) == -FI_EAGAIN);
  return error;
}

/* Tagged and untagged messages, with data, in every way of saying so. */
static void messages(void) {
  struct end it = open_end(FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC, FI_AV_TABLE, 0);
  struct fi_context one, two, three;
  struct iovec vector[2] = {{out, 10}, {out + 100, 20}}, places[2] = {{in, 25}, {in + 50, 100}};
  for (int at = 0; at < LONG; at++) out[at] = at % 251;
  if (!is_child) {
    CHECK(fi_tsenddata(it.ep, out, 30, NULL, 77, it.other, 5, &one));
    struct fi_cq_tagged_entry sent = completion(&it);
    REQUIRE(sent.op_context == &one && sent.flags == (FI_SEND | FI_TAGGED));
    CHECK(fi_tsendv(it.ep, vector, NULL, 2, it.other, 6, &two));
    REQUIRE(completion(&it).op_context == &two);
    CHECK(fi_send(it.ep, out, LONG, NULL, it.other, &three));
    REQUIRE(completion(&it).op_context == &three);
    CHECK(fi_inject(it.ep, out, 7, it.other));
    CHECK(fi_injectdata(it.ep, out, 8, 99, it.other));
    struct fi_msg message = {.msg_iov = vector, .iov_count = 2, .addr = it.other, .context = &one, .data = 3};
    REQUIRE(fi_sendmsg(it.ep, &message, FI_MULTICAST) == -FI_EBADFLAGS);
    CHECK(fi_sendmsg(it.ep, &message, FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA));
    REQUIRE(completion(&it).op_context == &one);
    CHECK(fi_cntr_wait(it.sends, 6, 20000));
    REQUIRE(fi_cntr_read(it.sends) == 6 && fi_cntr_readerr(it.sends) == 0);
    REQUIRE(fi_cntr_wait(it.sends, 7, 1) == -FI_ETIMEDOUT);
    CHECK(fi_cntr_add(it.sends, 4));
    CHECK(fi_cntr_wait(it.sends, 10, 0));
    REQUIRE(fi_inject(it.ep, out, info->tx_attr->inject_size + 1, it.other) == -FI_EMSGSIZE);
    REQUIRE(fi_send(it.ep, out, 1, NULL, it.other + 50, NULL) == -FI_EINVAL);
  } else {
    CHECK(fi_trecv(it.ep, in, LONG, NULL, it.other, 4, 1, &one));
    struct fi_cq_tagged_entry got = completion(&it);
    REQUIRE(got.op_context == &one && got.len == 30 && got.tag == 5 && got.data == 77 && got.buf == in);
    REQUIRE(got.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA) && !memcmp(in, out, 30));
    CHECK(fi_trecvv(it.ep, places, NULL, 2, FI_ADDR_UNSPEC, 6, 0, &two));
    got = completion(&it);
    REQUIRE(got.op_context == &two && got.len == 30 && got.flags == (FI_RECV | FI_TAGGED));
    REQUIRE(!memcmp(in, out, 10) && !memcmp(in + 10, out + 100, 15) && !memcmp(in + 50, out + 115, 5));
    fi_addr_t source = 1234;
    CHECK(fi_recv(it.ep, in, LONG, NULL, FI_ADDR_UNSPEC, &three));
    REQUIRE(fi_cq_sreadfrom(it.cq, &got, 1, &source, NULL, 20000) == 1);
    REQUIRE(got.len == LONG && got.flags == (FI_RECV | FI_MSG) && source == it.other && !memcmp(in, out, LONG));
    for (int length = 7; length < 9; length++) {
      CHECK(fi_recv(it.ep, in, LONG, NULL, it.other, &one));
      got = completion(&it);
      REQUIRE(got.len == (size_t)length && got.data == (length == 8 ? 99 : 0));
    }
    CHECK(fi_recv(it.ep, in, 12, NULL, it.other, &one));
    struct fi_cq_err_entry cut = failure(&it);
    REQUIRE(cut.err == FI_ETRUNC && cut.olen == 18 && cut.len == 12 && cut.data == 3 && cut.op_context == &one);
    REQUIRE(fi_cq_strerror(it.cq, cut.prov_errno, NULL, NULL, 0) != NULL);
    REQUIRE(fi_cntr_read(it.receives) == 5 && fi_cntr_readerr(it.receives) == 1);
  }
  close_end(&it);
}

/* Looking, claiming, discarding, cancelling; and completions only for what asks for them. */
static void matching(void) {
  struct end it = open_end(FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC, FI_AV_MAP, FI_SELECTIVE_COMPLETION);
  struct fi_context one, two;
  if (!is_child) {
    for (int tag = 0; tag < 3; tag++) CHECK(fi_tinject(it.ep, out, 50 + tag, it.other, tag));
    CHECK(fi_tsend(it.ep, out, 1, NULL, it.other, 3, NULL));
    struct fi_cq_tagged_entry entry;
    REQUIRE(fi_cq_sread(it.cq, &entry, 1, NULL, 20) == -FI_EAGAIN);
  } else {
    struct iovec place = {in, LONG};
    struct fi_msg_tagged message = {.addr = it.other, .tag = 9, .context = &one};
    CHECK(fi_trecvmsg(it.ep, &message, FI_PEEK));
    struct fi_cq_err_entry none = failure(&it);
    REQUIRE(none.err == FI_ENOMSG && none.op_context == &one && none.tag == 9);
    message.tag = 1;
    struct fi_cq_tagged_entry got = {0};
    while (got.len == 0) {
      CHECK(fi_trecvmsg(it.ep, &message, FI_PEEK | FI_CLAIM));
      if (fi_cq_sread(it.cq, &got, 1, NULL, 20000) == -FI_EAVAIL) REQUIRE(fi_cq_readerr(it.cq, &none, 0) == 1);
    }
    REQUIRE(got.len == 51 && got.tag == 1 && got.buf == NULL && got.op_context == &one);
    message.msg_iov = &place, message.iov_count = 1;
    CHECK(fi_trecvmsg(it.ep, &message, FI_CLAIM | FI_COMPLETION));
    got = completion(&it);
    REQUIRE(got.len == 51 && got.buf == in && got.op_context == &one);
    REQUIRE(fi_trecvmsg(it.ep, &message, FI_CLAIM) == -FI_EINVAL);
    message.tag = 0;
    CHECK(fi_trecvmsg(it.ep, &message, FI_PEEK | FI_DISCARD));
    REQUIRE(completion(&it).len == 50);
    CHECK(fi_trecv(it.ep, in, LONG, NULL, it.other, 2, 0, &two));
    message.tag = 3;
    CHECK(fi_trecvmsg(it.ep, &message, FI_COMPLETION));
    got = completion(&it);
    REQUIRE(got.tag == 3 && got.len == 1);
    CHECK(fi_cntr_wait(it.receives, 3, 20000));
    CHECK(fi_trecv(it.ep, in, LONG, NULL, it.other, 0, 0, &two));
    CHECK(fi_cancel(&it.ep->fid, &two));
    REQUIRE(fi_cancel(&it.ep->fid, &two) == -FI_ENOENT);
    struct fi_cq_err_entry cancelled = failure(&it);
    REQUIRE(cancelled.err == FI_ECANCELED && cancelled.op_context == &two);
  }
  close_end(&it);
}

/* A descriptor becomes readable when something comes, and the shorter formats are the beginning of the longest. */
static void descriptor(enum fi_cq_format format, size_t size) {
  struct end it = open_end(format, FI_WAIT_FD, FI_AV_TABLE, 0);
  struct fid *waited[1] = {&it.cq->fid};
  int fd;
  CHECK(fi_control(&it.cq->fid, FI_GETWAIT, &fd));
  char entries[3 * 48];
  memset(entries, 0x55, sizeof entries);
  struct fi_context contexts[2];
  if (is_child) {
    for (int at = 0; at < 2; at++) CHECK(fi_recv(it.ep, in + at, 1, NULL, FI_ADDR_UNSPEC, &contexts[at]));
    meet();
    size_t got = 0;
    while (got < 2) {
      if (fi_trywait(fabric, waited, 1) == 0) {
        struct pollfd asked = {fd, POLLIN, 0};
        REQUIRE(poll(&asked, 1, 20000) == 1);
      }
      ssize_t more = fi_cq_read(it.cq, entries + got * size, 2 - got);
      REQUIRE(more > 0 || more == -FI_EAGAIN);
      got += more > 0 ? more : 0;
    }
    for (int at = 0; at < 2; at++) {
      struct fi_cq_data_entry entry = {0};
      memcpy(&entry, entries + at * size, size < sizeof entry ? size : sizeof entry);
      REQUIRE(entry.op_context == &contexts[at]);
      REQUIRE(size < 24 || (entry.flags == (FI_RECV | FI_MSG) && entry.len == 1));
      REQUIRE(size < 40 || entry.buf == in + at);
    }
    REQUIRE(entries[2 * size] == 0x55);
    CHECK(fi_trywait(fabric, waited, 1));
    CHECK(fi_cq_signal(it.cq));
    REQUIRE(fi_cq_sread(it.cq, entries, 1, NULL, 20000) == -FI_EAGAIN);
  } else {
    meet();
    usleep(20000);
    for (int at = 0; at < 2; at++) {
      CHECK(fi_inject(it.ep, out, 1, it.other));
      usleep(1000);
    }
  }
  close_end(&it);
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
  hints->caps = FI_TAGGED | FI_MSG | FI_DIRECTED_RECV;
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = strdup("weft");
  /* A program that serialises all calls, as this one does, may say so: then short messages take a way of their own. */
  const char *threading = getenv("WEFT_TEST_THREADING");
  int is_serial = threading && !strcmp(threading, "domain");
  if (is_serial) hints->domain_attr->threading = FI_THREAD_DOMAIN;
  CHECK(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info));
  REQUIRE(info->domain_attr->threading == (is_serial ? FI_THREAD_DOMAIN : FI_THREAD_SAFE));
  REQUIRE(info->caps & FI_SOURCE && !(info->caps & FI_RMA) && info->mode == 0 && info->tx_attr->rma_iov_limit == 0);
  CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
  CHECK(fi_domain(fabric, info, &domain, NULL));
  struct fid_mr *region;
  CHECK(fi_mr_reg(domain, in, LONG, FI_RECV, 0, 42, 0, &region, NULL));
  REQUIRE(fi_mr_key(region) == 42);
  CHECK(fi_close(&region->fid));
  messages();
  matching();
  descriptor(FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry));
  descriptor(FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry));
  descriptor(FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry));
  CHECK(fi_close(&domain->fid));
  CHECK(fi_close(&fabric->fid));
  fi_freeinfo(info);
  if (is_child) _exit(0);
  int status;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  puts("all as the manual pages say");
  return 0;
}
