/* Virtual interfaces and active messages by weft_messages.h, between two processes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft_messages.h>

static int is_child;

static long long require(long long is_so, int line, const char *what, const char *why) {
  if (!is_so) fprintf(stderr, "%s, line %d: %s: %s\n", is_child ? "child" : "parent", line, what, why), exit(1);
  return is_so;
}

#define REQUIRE(is_so, why) require((is_so), __LINE__, #is_so, why)

static char memory[1 << 16];

static struct weft_vi_done done(weft_vi *adapter) {
  struct weft_vi_done it = {0};
  REQUIRE(weft_vi_wait(adapter, 20, &it) == 1, weft_vi_why(adapter));
  return it;
}

static void virtual_interfaces(void) {
  struct weft_vi_attributes attributes = {WEFT_RELIABLE_RECEPTION, 7, 16, 16}, other = {WEFT_RELIABLE_DELIVERY, 7, 16, 16};
  char why[200] = "";
  int number = 0;
  weft_vi *adapter = weft_vi_open(NULL, 64, &number, why, sizeof why);
  REQUIRE(adapter != NULL, why);
  long long handle = weft_vi_register(adapter, 7, memory, sizeof memory, 1), vi;
  if (!is_child) {
    int listener = (int)weft_vi_listen(adapter, "pair");
    REQUIRE(listener == 0, weft_vi_why(adapter));
    do vi = weft_vi_accept(adapter, listener, &attributes);
    while (vi == -EAGAIN);
    REQUIRE(vi == -ECONNREFUSED, "the levels differ");
    do vi = weft_vi_accept(adapter, listener, &attributes);
    while (vi == -EAGAIN);
    REQUIRE(vi >= 0, weft_vi_why(adapter));
    strcpy(memory, "by descriptor");
    struct { uint32_t handle; uint64_t address; } target;
    REQUIRE(weft_vi_receive(adapter, vi, 1, handle, memory + 4096, 64) == 0, weft_vi_why(adapter));
    struct weft_vi_done it = done(adapter);
    REQUIRE(it.is_receive && it.cookie == 1 && it.length == sizeof target && it.error == 0 && it.vi == vi, "the target");
    memcpy(&target, memory + 4096, sizeof target);
    REQUIRE(weft_vi_send(adapter, vi, 2, handle, memory, 14) == 0, weft_vi_why(adapter));
    it = done(adapter);
    REQUIRE(!it.is_receive && it.cookie == 2 && it.error == 0, "the send");
    REQUIRE(weft_vi_write(adapter, vi, 3, handle, memory, 14, target.handle, target.address + 100, 1) == 0, weft_vi_why(adapter));
    REQUIRE(done(adapter).cookie == 3, "the write");
    REQUIRE(weft_vi_write(adapter, vi, 4, handle, memory, 14, target.handle, target.address + sizeof memory, 1) == 0, "posted");
    REQUIRE(done(adapter).error == EFAULT, "outside of what is registered");
    REQUIRE(weft_vi_send(adapter, vi, 5, handle, memory, 14) == -EFAULT, "the connection is broken");
    REQUIRE(strstr(weft_vi_why(adapter), "the connection is broken") != NULL, weft_vi_why(adapter));
    REQUIRE(weft_vi_unlisten(adapter, listener) == 0 && weft_vi_unlisten(adapter, listener) == -EINVAL, "once");
  } else {
    do vi = weft_vi_connect(adapter, "pair", &other, 20);
    while (vi == -ECONNREFUSED && strstr(weft_vi_why(adapter), "nobody listens"));
    REQUIRE(vi == -ECONNREFUSED, "the levels differ");
    vi = weft_vi_connect(adapter, "pair", &attributes, 20);
    REQUIRE(vi >= 0, weft_vi_why(adapter));
    REQUIRE(weft_vi_receive(adapter, vi, 9, handle, memory + 8192, 64) == 0, weft_vi_why(adapter));
    REQUIRE(weft_vi_receive(adapter, vi, 10, handle, memory + 8192, 64) == 0, weft_vi_why(adapter));
    struct { uint32_t handle; uint64_t address; } target = {handle, (uint64_t)memory};
    memcpy(memory, &target, sizeof target);
    REQUIRE(weft_vi_send(adapter, vi, 8, handle, memory, sizeof target) == 0, weft_vi_why(adapter));
    struct weft_vi_done it = done(adapter);
    if (!it.is_receive) it = done(adapter);
    else REQUIRE(!done(adapter).is_receive, "the send");
    REQUIRE(it.cookie == 9 && it.length == 14 && !strcmp(memory + 8192, "by descriptor"), memory + 8192);
    it = done(adapter);
    REQUIRE(it.cookie == 10 && it.length == 14 && !strcmp(memory + 100, "by descriptor"), "written");
    REQUIRE(weft_vi_receive(adapter, vi, 11, handle, memory, 64) == 0, weft_vi_why(adapter));
    it = done(adapter);
    REQUIRE(it.cookie == 11 && it.error == ECONNRESET, "the peer broke the connection");
    REQUIRE(weft_vi_disconnect(adapter, vi) == 0 && weft_vi_disconnect(adapter, vi) == -EINVAL, "once");
  }
  REQUIRE(weft_vi_deregister(adapter, handle) == 0, "registered");
  weft_vi_close(adapter);
}

struct seen {
  int count;
  uint32_t last;
  size_t length;
};

static int note(void *context, const struct weft_am_message *message, struct weft_am_answer *answer) {
  struct seen *seen = context;
  seen->count++, seen->last = message->arguments[0], seen->length = message->length;
  (void)answer;
  return 0;
}

static int twice(void *context, const struct weft_am_message *message, struct weft_am_answer *answer) {
  answer->handler = 1, answer->arguments[0] = 2 * message->arguments[0];
  answer->payload = message->payload, answer->length = message->length;
  return note(context, message, answer), 1;
}

static void active_messages(void) {
  struct seen asked = {0}, answered = {0};
  char why[200] = "";
  int number = 0;
  uint16_t own = is_child, other = !is_child;
  weft_am *node = weft_am_open(NULL, own, &number, why, sizeof why);
  REQUIRE(node != NULL, why);
  REQUIRE(weft_am_open(NULL, own, &number, why, sizeof why) == NULL && number == EADDRINUSE, why);
  REQUIRE(weft_am_endpoint(node, 4) == 0, weft_am_why(node));
  REQUIRE(weft_am_join(node, own, 4, 1) == 0 && weft_am_join(node, other, 4, 1) == 0, "members");
  REQUIRE(weft_am_handle(node, 4, 0, twice, &asked) == 0 && weft_am_handle(node, 4, 1, note, &answered) == 0, "handlers");
  REQUIRE(weft_am_handle(node, 5, 0, twice, &asked) == -EPERM, "it is not open");
  static char bulk[3000];
  for (uint32_t at = 0; at < 100;) {
    uint32_t arguments[5] = {at};
    long long sent = weft_am_send(node, 4, other, 4, 0, arguments, at % 3 ? NULL : bulk, at * 20);
    REQUIRE(sent == 0 || sent == -EAGAIN || sent == -EHOSTUNREACH, weft_am_why(node));
    if (sent == 0) at++;
    else weft_am_wait(node, 0.001);
  }
  uint32_t arguments[5] = {0};
  REQUIRE(weft_am_send(node, 4, other, 9, 0, arguments, NULL, 0) == -EPERM, "no member");
  REQUIRE(weft_am_send(node, 4, other, 4, 0, arguments, bulk, 2049) == -EMSGSIZE, "too long");
  while (answered.count < 100 || asked.count < 100 || weft_am_outstanding(node)) REQUIRE(weft_am_wait(node, 20) == 1, weft_am_why(node));
  REQUIRE(answered.last == 198 && answered.length == 99 * 20 && asked.last == 99, "in order");
  uint64_t counts[5];
  REQUIRE(weft_am_counts(node, counts) == 0 && counts[0] == 200 && counts[2] == 200 && counts[1] + counts[3] + counts[4] == 0, "counts");
  /* The other may still wait for acknowledgments. */
  while (weft_am_wait(node, 0.3) == 1) {}
  weft_am_close(node);
}

int main(void) {
  pid_t child = fork();
  is_child = child == 0;
  virtual_interfaces();
  active_messages();
  if (is_child) return 0;
  int status;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");
  puts("virtual interfaces and active messages");
  return 0;
}
