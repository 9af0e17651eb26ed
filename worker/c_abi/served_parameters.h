#ifndef MUSTER_WORKER_C_ABI_SERVED_PARAMETERS_H_
#define MUSTER_WORKER_C_ABI_SERVED_PARAMETERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/checkpoint/local_storage.h"
#include "common/rpc/retry.h"
#include "common/rpc/tls_files.h"
#include "common/tables/row_sum.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/nn/layers/key_deduplicator.h"
#include "worker/nn/model.h"
#include "worker/strategy/servers/parameter_server_strategy.h"

namespace muster {

// One rank's place among the ranks of a program whose parameters are on servers: a strategy that is
// not driven by the units of a model but by whatever the program calls, in whatever order.
//
// A step begins when the one before has ended: its parameters are asked for at once. Its gradients
// come all together when it ends, and nothing of them leaves before all are found to be finite; or
// some are pushed before, as soon as they are there. Thread-safe, though calls wait for one
// another.
//
// Each tensor is a unit of its own, so that tensors without a gradient can be left alone.
class ServedParameters {
 public:
  struct Options {
    // The part of the task's order that is about servers.
    v1::TaskOrder order;
    // The tables, except how they are divided, which the order says, and their units. Tensors are
    // f32.
    v1::TablesSchema schema;
    // True if the tables begin with `values`, of which there is one array for each tensor; slot 0's
    // count.
    bool begins = false;
    absl::Span<const float* const> values;
    TlsFiles tls;
    std::function<absl::StatusOr<v1::ShardMap>()> newest_shard_map;
    std::function<void(absl::string_view)> log;
  };

  // Opens the tables, and begins the first step that the slot has not closed. Blocks.
  // InvalidArgument: the schema is not valid, or is not the other ranks'. Other errors, here and
  // below, are the strategy's and the storage's.
  static absl::StatusOr<std::unique_ptr<ServedParameters>> Open(Options options);

  // Returns the number of steps that this rank has ended.
  uint64_t clock() const;
  // Returns the tensor's memory, which keeps its address. Its values are those of the step once it
  // is acquired, until the step ends.
  const float* parameter(int tensor) const;
  // Returns the owner of all tensors' memory.
  const std::shared_ptr<RegisteredMemory>& memory() const { return memory_; }

  // Blocks until the tensor's values are there.
  absl::Status Acquire(int tensor);

  // Pushes a tensor's gradient ahead of the step's end, which takes no other. Copies it.
  // InvalidArgument: the step has one already. OutOfRange: it is not finite, and is not pushed.
  absl::Status PushGradient(int tensor, const float* gradient);

  // Says whether the gradients of rows that are looked up follow.
  enum class Follows { kGradients, kNothing };
  // Fills `rows`, [keys, dim], with rows of a table; keys may repeat. Returns a number for
  // TakeRowGradients.
  absl::StatusOr<uint64_t> LookUp(int table, absl::Span<const uint64_t> keys, float* rows,
                                  Follows follows);
  // Says when gradients of rows are pushed: kNow, once those of all look-ups of the table are
  // there; kAtEnd, with the step's end.
  enum class Push { kNow, kAtEnd };
  // Takes the gradients, [keys, dim], of the rows of a look-up in this step. InvalidArgument: the
  // step has no such look-up, or has taken its gradients, or has pushed the table's.
  absl::Status TakeRowGradients(uint64_t look_up, const float* gradients, Push push);

  // Forgets the step's look-ups, and the gradients of rows that are not pushed.
  // FailedPrecondition: gradients of the step have been pushed; it cannot be made anew.
  absl::Status Drop();

  // Ends the step with the gradients of all tensors, of which those count that are not pushed.
  // Null: the tensor has none in this step, and is left alone if it has none on any rank. Blocks
  // until servers have all of it. Then begins the next step. With these errors nothing was pushed,
  // except what had been before: OutOfRange, a gradient is not finite; FailedPrecondition, the
  // values of a tensor are not those that servers gave it.
  absl::Status EndStep(absl::Span<const float* const> gradients);

  // Cuts the tables at the number of steps that this rank has ended. Blocks until all ranks have
  // ended as many, and the files are written. FailedPrecondition: the cut cannot be written now.
  // DeadlineExceeded: a rank or a server takes longer than `timeout`; later calls that wait for
  // servers fail, too. An attempt to open the tables of a server that came back is waited for.
  absl::StatusOr<CutFiles> Cut(absl::Duration timeout);
  const v1::TablesSchema& schema() const { return schema_; }

 private:
  // The look-ups of one table in a step, and the gradients of their rows.
  struct TableStep {
    explicit TableStep(uint32_t dim) : sum(dim) {}
    void Clear();

    // The number of look-ups whose gradients have not come.
    int open = 0;
    // The gradients that have come, by distinct key: of one look-up; of several they are in `sum`.
    std::vector<uint64_t> keys;
    std::vector<float> gradients;
    RowSum sum;
    bool pushed = false;
  };
  struct OpenLookUp {
    int table = 0;
    std::vector<uint64_t> keys;
    std::vector<int32_t> inverse;
  };

  explicit ServedParameters(const v1::TablesSchema& schema);

  absl::Status Start(const Options& options);
  absl::Status AcquireLocked(int tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the strategy take gradients of this step.
  absl::Status BeginGradients() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PushLocked(int tensor, const float* gradient) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings what the table's look-ups gave together in `keys` and `gradients`.
  void SumRows(TableStep& table) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pushes the table's `keys` and `gradients`.
  absl::Status PushRows(int table) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // FailedPrecondition: the tensor was changed since it was acquired.
  absl::Status CheckUnchanged(int tensor) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OutOfRange: the gradient of `what` is not finite.
  absl::Status CheckFinite(absl::string_view what, absl::Span<const float> gradient) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Span<const float> ValuesOf(int tensor) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const v1::TablesSchema schema_;
  RealClock time_;
  RealWaiter waiter_;
  LocalStorage storage_;

  mutable absl::Mutex mutex_;
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  // By tensor: whether it is acquired, the fingerprint of the values that servers gave it then, and
  // whether its gradient is pushed.
  std::vector<bool> acquired_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> fingerprints_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> pushed_ ABSL_GUARDED_BY(mutex_);
  bool takes_gradients_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_look_up_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, OpenLookUp> look_ups_ ABSL_GUARDED_BY(mutex_);
  std::vector<TableStep> tables_ ABSL_GUARDED_BY(mutex_);
  KeyDeduplicator deduplicator_ ABSL_GUARDED_BY(mutex_);
  // Holds the rows of the look-up or push under way; empty between calls.
  MicroBatch rows_ ABSL_GUARDED_BY(mutex_);
  // These two end after the strategy, whose connections use them.
  std::shared_ptr<RegisteredMemory> memory_;
  std::shared_ptr<ChannelIo> io_;
  std::unique_ptr<ParameterServerStrategy> strategy_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_C_ABI_SERVED_PARAMETERS_H_
