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
// A step begins when the one before has ended: its parameters are asked for at once. Gradients may
// come in any order, each once; a unit is pushed when all of its tensors' have come. Thread-safe,
// though calls wait for one another.
class ServedParameters {
 public:
  struct Options {
    // The part of the task's order that is about servers.
    v1::TaskOrder order;
    // The tables, except how they are divided, which the order says. Tensors are f32, and units are
    // numbered from 0 without gaps.
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
  // Returns the tensor's memory, which keeps its address. Its values are those of the step once its
  // unit is acquired, until the step ends.
  const float* parameter(int tensor) const;
  // Returns the owner of all tensors' memory.
  const std::shared_ptr<RegisteredMemory>& memory() const { return memory_; }

  // Blocks until the unit's values are there.
  absl::Status Acquire(int unit);

  // Takes a tensor's gradient of the step; null: zeros. Copies it. InvalidArgument: the step has
  // one already.
  absl::Status TakeGradient(int tensor, const float* gradient);

  // Says whether the gradients of rows that are looked up follow.
  enum class Follows { kGradients, kNothing };
  // Fills `rows`, [keys, dim], with rows of a table; keys may repeat. Returns a number for
  // TakeRowGradients.
  absl::StatusOr<uint64_t> LookUp(int table, absl::Span<const uint64_t> keys, float* rows,
                                  Follows follows);
  // Takes the gradients, [keys, dim], of the rows of a look-up in this step. The table's are pushed
  // when those of all look-ups are there and no backward pass follows, or at the step's end.
  // InvalidArgument: the step has no such look-up, or has taken its gradients, or has pushed the
  // table's.
  absl::Status TakeRowGradients(uint64_t look_up, const float* gradients, SeriesPosition position);

  // Ends the step: gradients that did not come are zeros. Blocks until servers have all of it. Then
  // begins the next step.
  absl::Status EndStep();

  // Cuts the tables at the number of steps that this rank has ended. Blocks until all ranks have
  // ended as many, and the files are written. FailedPrecondition: the cut cannot be written now.
  // DeadlineExceeded: a rank or a server takes longer than `timeout`; later calls that wait for
  // servers fail, too. An attempt to open the tables of a server that came back is waited for.
  absl::StatusOr<CutFiles> Cut(absl::Duration timeout);
  const v1::TablesSchema& schema() const { return schema_; }

 private:
  // The look-ups of one table in a step.
  struct TableStep {
    explicit TableStep(uint32_t dim) : sum(dim) {}

    // The number of look-ups whose gradients have not come.
    int open = 0;
    // The sum of the gradients that have come.
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
  absl::Status AcquireLocked(int unit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeGradientLocked(int tensor, const float* gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the strategy take gradients of this step.
  absl::Status BeginGradients() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pushes the sum of the gradients of the table's look-ups.
  absl::Status PushSum(int table) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const v1::TablesSchema schema_;
  RealClock time_;
  RealWaiter waiter_;
  LocalStorage storage_;
  // The number of tensors of each unit.
  std::vector<int> unit_tensors_;

  mutable absl::Mutex mutex_;
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<bool> acquired_ ABSL_GUARDED_BY(mutex_);
  bool takes_gradients_ ABSL_GUARDED_BY(mutex_) = false;
  // True for each tensor whose gradient has come; and the number of each unit's that have not.
  std::vector<bool> taken_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> missing_ ABSL_GUARDED_BY(mutex_);
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
