#ifndef MUSTER_WORKER_C_ABI_MUSTER_NATIVE_H_
#define MUSTER_WORKER_C_ABI_MUSTER_NATIVE_H_

/* Collective calls for languages that call C: worker/collectives behind plain functions, for
 * python/src/muster/torch.
 *
 * Memory is named by pointers and never copied. Functions that can fail return 0 or a code of
 * absl::StatusCode; then muster_error() has the message until this thread's next failed call. No
 * function may be called with an object that was freed. Objects are made and freed in order: a
 * group before its endpoint, a work before its group.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts changes to this file that callers must know of. */
#define MUSTER_ABI_VERSION 3
int muster_abi_version(void);

/* Returns the message of this thread's last failed call. */
const char* muster_error(void);

/* The place where a process waits for the other ranks before it knows who they are
 * (CollectiveEndpoint). */
typedef struct muster_endpoint muster_endpoint;
/* A rank's place in a group (Communicator). Any thread may start calls. */
typedef struct muster_group muster_group;
/* A call that was started (Work). */
typedef struct muster_work muster_work;

/* See HostEndpointOptions (worker/collectives/endpoint.h). Texts are never null. */
typedef struct muster_endpoint_options {
  const char* host;
  const char* advertised_host;
  uint16_t first_port;
  uint16_t last_port;
  /* 0 or 1. */
  int32_t shared_memory;
  int32_t tls;
  int32_t connections;
} muster_endpoint_options;

int muster_endpoint_make(const muster_endpoint_options* options, muster_endpoint** endpoint);
/* Returns opaque bytes by which others reach this process; they live as long as the endpoint. */
const char* muster_endpoint_address(const muster_endpoint* endpoint, size_t* size);
void muster_endpoint_free(muster_endpoint* endpoint);

typedef struct muster_meeting {
  /* Name in errors. */
  const char* name;
  /* The same on all ranks, and never used for two groups of the endpoints. */
  uint64_t round;
  /* Known to the members alone. */
  const char* secret;
  size_t secret_size;
  /* Addresses by rank, and their sizes. */
  const char* const* addresses;
  const size_t* address_sizes;
  int32_t rank;
  int32_t size;
  double timeout_seconds;
} muster_meeting;

/* Connects this rank to the others; blocks until all have come. */
int muster_connect(muster_endpoint* endpoint, const muster_meeting* meeting, muster_group** group);

/* The values of Collective, DType and Reduction, in their order. `counts` and `send_counts` are
 * null or have one element per rank. See worker/collectives/collective_call.h. */
typedef struct muster_call {
  int32_t kind;
  int32_t dtype;
  int32_t reduction;
  int32_t root;
  const void* in;
  void* out;
  size_t count;
  const size_t* counts;
  const size_t* send_counts;
  double timeout_seconds;
  int32_t tag;
} muster_call;

/* Queues a call behind earlier ones and returns. Its memory must stay valid until the work has
 * ended; what the struct points to otherwise is only read during the call. */
int muster_start(muster_group* group, const muster_call* call, muster_work** work);
/* Blocks until the work has ended, and returns its status. The thread that waits carries the call
 * out. */
int muster_wait(muster_work* work);
/* Returns 1 if the work has ended, else 0. */
int muster_ended(const muster_work* work);
/* Returns the rank that sent what the work has received. REQUIRES: a receive that has ended well.
 */
int muster_source(const muster_work* work);
void muster_work_free(muster_work* work);

/* One call as this rank saw it. */
typedef struct muster_recorded_call {
  /* Number of the call among this rank's calls in the group, from 1. */
  uint64_t sequence;
  /* Names such as "all_reduce", "f32" and "sum". */
  const char* operation;
  const char* dtype;
  const char* reduction;
  uint64_t count;
  int64_t started_unix_us;
  /* -1: the call has not ended. */
  int64_t duration_us;
  /* Empty: it has not failed. */
  const char* error;
} muster_recorded_call;

/* Calls `take` for each of the group's last calls, at most 1,000, oldest first. A call's texts live
 * until `take` returns. */
void muster_recorded_calls(const muster_group* group,
                           void (*take)(void* context, const muster_recorded_call* call),
                           void* context);

/* Ends all calls on all ranks with this reason. Does not block. */
void muster_abort(muster_group* group, const char* reason);
void muster_group_free(muster_group* group);

#ifdef __cplusplus
}
#endif

#endif  // MUSTER_WORKER_C_ABI_MUSTER_NATIVE_H_
