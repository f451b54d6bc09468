/* Windows between programs: reflected memory (Memory Channel 2).
 *
 * Link with the provider: cc program.c -I<here> <providers>/libweft-fi.so. `python -m weft.messages` prints both.
 *
 * Programs find a window by its name in a rendezvous directory that only its user can enter; NULL is the default
 * (WEFT_MESSAGES_DIRECTORY, or one in the directory for temporary files). Each member has a copy. A write goes to
 * the copies of its targets: writes of one sender in order, writes of several senders in the same order everywhere.
 * A member reads its own copy.
 *
 * Calls return zero or more, or a negative number of <errno.h>; weft_window_why() then says why. A handle may be
 * used by several threads, one at a time. */
#ifndef WEFT_MESSAGES_H
#define WEFT_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_window weft_window;

/* How a member maps the window: incoming (others may write its copy), outgoing (it may write). */
enum { WEFT_TAKES = 1, WEFT_WRITES = 2 };

/* The targets of a write: one of these, or a bit set of nodes. */
#define WEFT_ALL UINT64_C(0)
#define WEFT_OTHERS (UINT64_C(1) << 63)
#define WEFT_NODE(node) (UINT64_C(1) << (node))

/* Creates a window and joins it, or joins one. Returns NULL on failure, with the error's number in `number` and its
 * text in `why`, which has `room` bytes; both may be NULL. */
weft_window *weft_window_create(const char *directory, const char *name, uint64_t bytes, int *number,
                                char *why, size_t room);
weft_window *weft_window_attach(const char *directory, const char *name, int access, int *number, char *why,
                                size_t room);
/* Leaves; the memory stays readable until the handle is closed. */
void weft_window_leave(weft_window *window);
void weft_window_close(weft_window *window);

/* The text of the last failure. */
const char *weft_window_why(const weft_window *window);

/* This member's copy, which must not be written directly; its size; this member's number; the members that have a
 * copy, as a bit set. */
const void *weft_window_memory(const weft_window *window);
uint64_t weft_window_bytes(const weft_window *window);
int weft_window_node(const weft_window *window);
uint64_t weft_window_members(const weft_window *window);

/* Writes to the copies of all targets. */
long long weft_window_write(const weft_window *window, uint64_t targets, uint64_t offset, const void *bytes,
                            size_t length);
/* Reads this member's copy, in order, each aligned word of 8 bytes atomically. */
long long weft_window_read(const weft_window *window, uint64_t offset, void *bytes, size_t length);
/* Reads another member's copy, after all earlier writes of this member. */
long long weft_window_read_remote(const weft_window *window, int node, uint64_t offset, void *bytes,
                                  size_t length);
/* Writes one packet of at most 256 bytes that is applied only if the target's error count is still `errors`:
 * 1 if it was, 0 if not. */
long long weft_window_write_conditional(const weft_window *window, int node, uint64_t offset, const void *bytes,
                                        size_t length, uint64_t errors);
/* Writes a message whose last packet is a conditional write, again after an error; returns the attempts. */
long long weft_window_deliver(const weft_window *window, int node, uint64_t offset, const void *bytes,
                              size_t length);
/* Waits until all earlier writes of this member are in the copies of the targets. */
long long weft_window_sweep(const weft_window *window, uint64_t targets);
/* Waits until this member's copy has changed: 1, or 0 on timeout. */
long long weft_window_wait(const weft_window *window, double seconds);
/* The number of packets that a node has missed; -1 is this member. */
long long weft_window_errors(const weft_window *window, int node);

/* Locks 0 to 15. */
long long weft_window_lock(const weft_window *window, int lock, double seconds);
long long weft_window_unlock(const weft_window *window, int lock);
/* Waits until `members` members have arrived, and the earlier writes of each are in all copies. */
long long weft_window_barrier(const weft_window *window, int members, double seconds);

#ifdef __cplusplus
}
#endif

#endif
