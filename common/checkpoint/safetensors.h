#ifndef MUSTER_COMMON_CHECKPOINT_SAFETENSORS_H_
#define MUSTER_COMMON_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/checkpoint/checkpoint_reader.h"

namespace muster {

// Writes the weights of a checkpoint in the safetensors format, in order, to `sink`, some MiB at a
// time: a little-endian u64 length, a JSON object with type, shape and place of each tensor, then
// their bytes. The metadata name the job, the clock and, where they are known, the tokenizer
// (common/tokenizer/tokenizer_identity.h) and "data_preparation": how values of the data became the
// model's numbers (proto/data_preparation.proto, in JSON). Each dense tensor goes under its name as
// F32; a sparse table T becomes "T.keys" (U64, [rows]) and "T.rows" (F32, [rows, dim]), rows in the
// checkpoint's order. Optimizer state and tied tensors, which are others' elements, stay out. The
// sink's first error ends the export, which returns it. FailedPrecondition: two tensors would get
// one name. DataLoss: a part of the checkpoint is damaged.
absl::Status ExportSafetensors(const CheckpointReader& checkpoint,
                               absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> sink);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_SAFETENSORS_H_
