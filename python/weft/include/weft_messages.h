/* Windows (reflected memory, Memory Channel 2), virtual interfaces (cLAN) and active messages (Clint) between
 * programs.
 *
 * Link with the provider: cc program.c -I<here> <providers>/libweft-fi.so. `python -m weft.messages` prints both.
 *
 * Programs find a window by its name in a rendezvous directory that only its user can enter; NULL is the default
 * (WEFT_MESSAGES_DIRECTORY, or one in the directory for temporary files). Each member has a copy. A write goes to
 * the copies of its targets: writes of one sender in order, writes of several senders in the same order everywhere.
 * A member reads its own copy.
 *
 * Calls return zero or more, or a negative number of <errno.h>; the function ..._why() then returns the text. A
 * handle may be used by several threads, one at a time. */
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

/* Virtual interfaces: connected pairs of work queues over registered memory. An adapter owns no thread: work is done
 * inside its calls. */
typedef struct weft_vi weft_vi;

enum { WEFT_UNRELIABLE_DELIVERY = 0, WEFT_RELIABLE_DELIVERY = 1, WEFT_RELIABLE_RECEPTION = 2 };

struct weft_vi_attributes {
  int reliability; /* the same at both ends */
  uint32_t tag;    /* the protection tag of the memory that descriptors may name */
  uint16_t sends, receives; /* the most descriptors of each queue */
};

struct weft_vi_done {
  int vi;
  int is_receive;
  uint64_t cookie; /* that of the descriptor */
  uint64_t length; /* bytes received */
  int error;       /* zero, or a number of <errno.h> */
};

/* Opens an adapter whose completion queue has `completions` entries; errors as of weft_window_create(). */
weft_vi *weft_vi_open(const char *directory, uint32_t completions, int *number, char *why, size_t room);
void weft_vi_close(weft_vi *adapter);
const char *weft_vi_why(const weft_vi *adapter);

/* Registers memory under a tag, writable by RDMA or not; returns its handle. It must stay valid until it is
 * deregistered or the adapter is closed. */
long long weft_vi_register(const weft_vi *adapter, uint32_t tag, void *memory, size_t length, int is_writable);
long long weft_vi_deregister(const weft_vi *adapter, uint32_t memory);

/* Listens under a name; returns a listener. Accepts its next request, if one is waiting (else -EAGAIN), or requests
 * a connection; both return an interface. */
long long weft_vi_listen(const weft_vi *adapter, const char *name);
long long weft_vi_unlisten(const weft_vi *adapter, int listener);
long long weft_vi_accept(const weft_vi *adapter, int listener, const struct weft_vi_attributes *attributes);
long long weft_vi_connect(const weft_vi *adapter, const char *name, const struct weft_vi_attributes *attributes,
                          double seconds);
/* Ends a connection; its descriptors complete with ECONNRESET. */
long long weft_vi_disconnect(const weft_vi *adapter, int vi);

/* Posts a descriptor of up to 16 KiB of registered memory. A write goes to the peer's memory, and completes a
 * receive there if `is_told`. */
long long weft_vi_send(const weft_vi *adapter, int vi, uint64_t cookie, uint32_t memory, const void *at,
                       size_t length);
long long weft_vi_receive(const weft_vi *adapter, int vi, uint64_t cookie, uint32_t memory, void *at,
                          size_t length);
long long weft_vi_write(const weft_vi *adapter, int vi, uint64_t cookie, uint32_t memory, const void *at,
                        size_t length, uint32_t remote_memory, uint64_t remote_address, int is_told);
/* Waits for a completion: 1, or 0 on timeout. */
long long weft_vi_wait(const weft_vi *adapter, double seconds, struct weft_vi_done *done);

/* Active messages: up to 16 nodes with endpoints; a message calls a handler of its target. */
typedef struct weft_am weft_am;

struct weft_am_message {
  uint16_t node, endpoint; /* the initiator */
  uint32_t arguments[5];
  const void *payload; /* NULL without one; valid during the call */
  size_t length;
};

struct weft_am_answer {
  uint16_t handler; /* at the initiator */
  uint32_t arguments[5];
  const void *payload; /* of up to 2048 bytes, or NULL */
  size_t length;
};

/* Called inside weft_am_wait() and weft_am_send(); must not call functions of its node. Returns 1 if it has filled in
 * an answer, which is sent to the initiator's endpoint. */
typedef int (*weft_am_handler)(void *context, const struct weft_am_message *message, struct weft_am_answer *answer);

weft_am *weft_am_open(const char *directory, uint16_t node, int *number, char *why, size_t room);
void weft_am_close(weft_am *node);
const char *weft_am_why(const weft_am *node);

/* Opens an endpoint of this node; sets its handler of an index; makes an endpoint of any node a member of a virtual
 * network, which both nodes check. */
long long weft_am_endpoint(const weft_am *node, uint16_t endpoint);
long long weft_am_handle(const weft_am *node, uint16_t endpoint, uint16_t index, weft_am_handler handler,
                         void *context);
long long weft_am_join(const weft_am *node, uint16_t member_node, uint16_t member_endpoint, uint32_t network);

/* Sends a message, a bulk message if `payload` is not NULL; -EAGAIN if all send buffers are in use. */
long long weft_am_send(const weft_am *node, uint16_t endpoint, uint16_t to_node, uint16_t to_endpoint,
                       uint16_t handler, const uint32_t arguments[5], const void *payload, size_t length);
/* Makes progress until a message was handled, acknowledged, refused or failed: 1, or 0 on timeout. */
long long weft_am_wait(const weft_am *node, double seconds);
/* The number of messages that are neither delivered nor failed, answers included. */
long long weft_am_outstanding(const weft_am *node);
/* Messages delivered, failed, handled here, refused here, and malformed packets. */
long long weft_am_counts(const weft_am *node, uint64_t counts[5]);

#ifdef __cplusplus
}
#endif

#endif
