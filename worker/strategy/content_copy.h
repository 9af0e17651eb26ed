#ifndef MUSTER_WORKER_STRATEGY_CONTENT_COPY_H_
#define MUSTER_WORKER_STRATEGY_CONTENT_COPY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/tables/table_checkpoint.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/offloaded_floats.h"

namespace muster {

// A copy of what files of a checkpoint hold, which stays as it is while training goes on. Its
// memory is allocated by the first copy and used again by later ones. With optimizer state in a
// file, the copy's dense values are in a file, too. Not thread-safe.
class ContentCopy {
 public:
  // `offload_folder` is the folder for optimizer state; empty: it is in memory.
  explicit ContentCopy(std::string offload_folder) : offload_folder_(std::move(offload_folder)) {}

  // Copies everything that the contents refer to, all of one job's tensors. The copies of an
  // earlier call are gone. Errors are OffloadedFloats'.
  absl::Status Take(std::vector<PartitionContent> contents);

  absl::Span<const PartitionContent> contents() const { return contents_; }

 private:
  // Returns memory for so many floats.
  absl::StatusOr<absl::Span<float>> Reserve(size_t floats);
  void CopyBlocks(absl::Span<float> values);
  void CopyRows();
  // Unmaps a copied block that lies in a file.
  void Unmap(const PartitionContent::Block& block) const;

  const std::string offload_folder_;
  std::vector<PartitionContent> contents_;
  std::vector<TensorSpec> tensors_;
  // The layouts of all blocks, in order.
  std::vector<DenseLayout::Block> layouts_;
  // One of the two has all dense values, block after block: weights, then state.
  std::unique_ptr<Arena> values_;
  std::unique_ptr<const OffloadedFloats> offloaded_values_;
  // All rows, each in whole words.
  std::vector<uint64_t> rows_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_CONTENT_COPY_H_
