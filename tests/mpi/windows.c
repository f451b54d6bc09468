/* Two processes that use every call of weft_messages.h. Says how long a word takes from one to the other; with an
 * argument, after so many turns. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <weft_messages.h>

#define CHECK(holds) \
  if (!(holds)) fprintf(stderr, "%d: line %d: %s: %s\n", getpid(), __LINE__, #holds, window ? weft_window_why(window) : why), _exit(3)

enum { BYTES = 65536, LARGE = 32768, PING = 0, PONG = 64 };
static char why[256];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Waits for a number by looking at memory alone. */
static void await(const void *memory, int offset, unsigned long number) {
  const volatile unsigned long *word = (const void *)((const char *)memory + offset);
  for (int looks = 1; *word != number; looks++)
    if (looks % 500 == 0) sched_yield();
}

static void both(weft_window *window, int own, unsigned long turns) {
  const char *memory = weft_window_memory(window);
  char bytes[LARGE];
  CHECK(weft_window_bytes(window) == BYTES && weft_window_node(window) == own);
  CHECK(weft_window_barrier(window, 2, 20) == 0);
  CHECK(weft_window_members(window) == 3);
  double began = now();
  for (unsigned long turn = 1; turn <= turns; turn++) {
    if (own == 0) CHECK(weft_window_write(window, WEFT_OTHERS, PING, &turn, sizeof turn) == 0);
    await(memory, own == 0 ? PONG : PING, turn);
    if (own == 1) CHECK(weft_window_write(window, WEFT_NODE(0), PONG, &turn, sizeof turn) == 0);
  }
  double word = (now() - began) / turns / 2;
  CHECK(weft_window_barrier(window, 2, 20) == 0);
  began = now();
  for (int turn = 0; own == 0 && turn < 200; turn++)
    CHECK(weft_window_write(window, WEFT_OTHERS, 1024, bytes, LARGE) == 0);
  double large = 200.0 * LARGE / (now() - began);

  /* Each adds to a number that only the holder of a lock may change. */
  CHECK(weft_window_barrier(window, 2, 20) == 0);
  for (int turn = 0; turn < 200; turn++) {
    unsigned long number;
    CHECK(weft_window_lock(window, 1, 20) == 0);
    CHECK(weft_window_read(window, 512, &number, sizeof number) == 0);
    number++;
    CHECK(weft_window_write(window, WEFT_ALL, 512, &number, sizeof number) == 0);
    CHECK(weft_window_sweep(window, WEFT_ALL) == 0);
    CHECK(weft_window_unlock(window, 1) == 0);
  }
  CHECK(weft_window_barrier(window, 2, 20) == 0);
  CHECK(*(const unsigned long *)(memory + 512) == 400);

  long long errors = weft_window_errors(window, 1 - own);
  CHECK(errors == 0 && weft_window_errors(window, -1) == 0);
  snprintf(bytes, sizeof bytes, "from %d", own);
  CHECK(weft_window_write_conditional(window, 1 - own, 600, bytes, 7, errors) == 1);
  CHECK(weft_window_write_conditional(window, 1 - own, 600, "refused", 7, errors + 1) == 0);
  CHECK(weft_window_deliver(window, 1 - own, 1000, bytes, 1000) == 1);
  CHECK(weft_window_barrier(window, 2, 20) == 0);
  CHECK(memory[605] == '1' - own && memory[1005] == '1' - own);
  CHECK(weft_window_read_remote(window, 1 - own, 600, bytes, 7) == 0 && bytes[5] == '0' + own);
  CHECK(weft_window_write(window, WEFT_ALL, BYTES, "x", 1) == -ERANGE);
  CHECK(strstr(weft_window_why(window), "outside of the window"));
  CHECK(weft_window_unlock(window, 1) == -EPERM && weft_window_lock(window, 99, 0) == -EINVAL);

  /* The other leaves, which is seen at the next call. */
  CHECK(weft_window_barrier(window, 2, 20) == 0);
  if (own == 0) {
    while (weft_window_members(window) != 1) weft_window_wait(window, 0.01);
    printf("%.0f ns for a word of 8 bytes, %.2f GB/s\n", word, large);
  }
  weft_window_leave(window);
  CHECK(memory[605] == '1' - own);
  CHECK(weft_window_write(window, WEFT_ALL, 0, "x", 1) < 0);
  weft_window_close(window);
}

int main(int count, char **words) {
  unsigned long turns = count > 1 ? strtoul(words[1], NULL, 10) : 5000;
  int ready[2], number = 0;
  char name[64];
  if (pipe(ready)) return 2;
  snprintf(name, sizeof name, "c-%d", getpid());
  pid_t child = fork();
  weft_window *window = NULL;
  if (child == 0) {
    CHECK(read(ready[0], why, 1) == 1);
    window = weft_window_attach(NULL, name, WEFT_TAKES | WEFT_WRITES, &number, why, sizeof why);
    CHECK(window);
    both(window, 1, turns);
    _exit(0);
  }
  CHECK(!weft_window_attach(NULL, name, WEFT_TAKES, &number, why, sizeof why) && number == ENOENT);
  window = weft_window_create(NULL, name, BYTES, &number, why, sizeof why);
  CHECK(window && write(ready[1], "x", 1) == 1);
  both(window, 0, turns);
  int status;
  waitpid(child, &status, 0);
  return status ? 4 : 0;
}
