#ifndef MUSTER_WORKER_C_ABI_INITIAL_VALUES_H_
#define MUSTER_WORKER_C_ABI_INITIAL_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/checkpoint/storage.h"
#include "common/rpc/retry.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

// How a program's own initial values come to servers, which know only initializers and
// checkpoints: one rank writes the values as a checkpoint at clock 0, where no checkpoint of a
// program is, and all open the tables from it. The coordinator removes it with the other leftovers
// below the first checkpoint.

// Returns the folder of the checkpoint.
std::string InitialValuesFolder(const v1::TaskOrder& order);

// Writes the values of the schema's tensors, in their order. A checkpoint of the same tables that
// is there already stays: a job that goes back to its beginning begins with the same values.
absl::Status WriteInitialValues(CheckpointStorage& storage, const v1::TaskOrder& order,
                                const v1::TablesSchema& schema,
                                absl::Span<const float* const> values);

// Blocks until the checkpoint is there. Unavailable: nobody has written it for ten minutes.
absl::Status AwaitInitialValues(const CheckpointStorage& storage, const v1::TaskOrder& order,
                                Waiter& waiter);

}  // namespace muster

#endif  // MUSTER_WORKER_C_ABI_INITIAL_VALUES_H_
