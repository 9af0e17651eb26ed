#ifndef MUSTER_WORKER_C_ABI_MUSTER_SERVERS_H_
#define MUSTER_WORKER_C_ABI_MUSTER_SERVERS_H_

/* Parameters on servers for languages that call C: ServedParameters (served_parameters.h, which has
 * the contracts) behind plain functions, for python/src/muster/torch. A library of its own, since
 * it needs gRPC and Protocol Buffers.
 *
 * Memory is named by pointers. Functions that can fail return 0 or a code of absl::StatusCode; then
 * muster_servers_error() has the message until this thread's next failed call. No function may be
 * called with an object that was closed. Any thread may call.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts changes to this file that callers must know of. */
#define MUSTER_SERVERS_ABI_VERSION 3
int muster_servers_abi_version(void);

/* Returns the message of this thread's last failed call. */
const char* muster_servers_error(void);

/* A rank's place among the ranks whose parameters are on servers. */
typedef struct muster_servers muster_servers;

typedef struct muster_servers_options {
  /* A serialised muster.v1.TaskOrder, from the task's call `servers`. */
  const void* order;
  size_t order_size;
  /* Fields of muster.v1.UpdateSpec beside those of the order, in JSON. */
  const char* update;
  /* The muster.v1.TablesSchema in JSON, except how tables are divided. */
  const char* schema;
  /* Not 0: the tables begin with `values`, f32, by tensor of the schema. Only read during the call.
   */
  int32_t begins;
  const float* const* values;
  size_t values_count;
  /* Paths of PEM files, from the task; empty: the cluster has no certificates. */
  const char* tls_authority;
  const char* tls_certificate;
  const char* tls_key;
  /* Writes the newest muster.v1.ShardMap, serialised, and returns its size; or the negative of a
   * code of absl::StatusCode. Aborted ends the call that waits, and so does a size of 0. Called on
   * the thread that calls a function below. */
  int64_t (*shard_map)(void* out, size_t capacity);
} muster_servers_options;

int muster_servers_open(const muster_servers_options* options, muster_servers** servers);
void muster_servers_close(muster_servers* servers);

/* Returns the number of steps that this rank has ended. */
uint64_t muster_servers_clock(const muster_servers* servers);
/* Returns a DLManagedTensor (dlpack.h) of the tensor's values, whose address does not change; null:
 * there is no such tensor. Its memory outlives `servers`, until its deleter is called, on any
 * thread. */
void* muster_servers_parameter(const muster_servers* servers, int32_t tensor);

/* Blocks until the tensor's values of this step are there. */
int muster_servers_acquire(muster_servers* servers, int32_t tensor);
/* Pushes the tensor's gradient ahead of the step's end. */
int muster_servers_push(muster_servers* servers, int32_t tensor, const float* gradient);

/* Fills `rows`, [count, dim], with rows of a sparse table. `look_up` null: no gradients follow.
 * Otherwise it gets a number for muster_servers_row_gradients. */
int muster_servers_look_up(muster_servers* servers, int32_t table, const uint64_t* keys,
                           size_t count, float* rows, uint64_t* look_up);
/* Takes the gradients, [count, dim], of the rows of a look-up in this step. `now` not 0: they are
 * pushed once those of all look-ups of the table are there. */
int muster_servers_row_gradients(muster_servers* servers, uint64_t look_up, const float* gradients,
                                 int32_t now);
/* Forgets the step's look-ups and the gradients of their rows. */
int muster_servers_drop(muster_servers* servers);

/* Ends the step with a gradient for each tensor; null: it has none. Those that were pushed do not
 * count. Blocks until servers have all of it. */
int muster_servers_step(muster_servers* servers, const float* const* gradients, size_t count);

/* Cuts the tables between two steps. Blocks until all ranks have ended as many steps and the files
 * are written, at most for `timeout_seconds` and until an attempt under way to open the tables of a
 * server that came back ends. `cut` gets the field `served` of the call
 * `commit_checkpoint` in JSON, which lives until the object's next cut. */
int muster_servers_cut(muster_servers* servers, double timeout_seconds, const char** cut);

#ifdef __cplusplus
}
#endif

#endif  // MUSTER_WORKER_C_ABI_MUSTER_SERVERS_H_
