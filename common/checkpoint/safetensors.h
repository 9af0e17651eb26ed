#ifndef MUSTER_COMMON_CHECKPOINT_SAFETENSORS_H_
#define MUSTER_COMMON_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/checkpoint/checkpoint_reader.h"

namespace muster {

// Says which values of dense tensors are exported.
enum class ExportedValues {
  kWeights,
  // The averages that the job kept of its weights (kAverageState).
  kAverages,
};

// Writes the weights of a checkpoint in the safetensors format, in order, to `sink`, some MiB at a
// time: a little-endian u64 length, a JSON object with type, shape and offset of each tensor, then
// their bytes. The metadata name the job, the clock and, where known, the tokenizer
// (common/tokenizer/tokenizer_identity.h) and "data_preparation": how values of the data became the
// model's numbers (proto/data_preparation.proto, in JSON). Each dense tensor keeps its name, as
// F32; a sparse table T becomes "T.keys" (U64, [rows]) and "T.rows" (F32, [rows, dim]), rows in the
// checkpoint's order. Leaves out optimizer state and tied tensors, whose elements are another
// tensor's. With averages, the values of dense tensors are theirs. Returns the sink's first error.
// InvalidArgument: the checkpoint has no averages. FailedPrecondition: two tensors would get one
// name. DataLoss: a part of the checkpoint is damaged.
absl::Status ExportSafetensors(const CheckpointReader& checkpoint, ExportedValues values,
                               absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> sink);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_SAFETENSORS_H_
