#ifndef MUSTER_WORKER_DATA_DATASETS_MIXTURE_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_MIXTURE_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

// Sequences of several sources as one dataset: the training examples of one source after another,
// then the held-out ones in the same order. `holdout` (DataSpec.holdout) holds out the end of each
// source, rounded so that all sources together hold out as many examples as one dataset of their
// size would (worker/data/sampling/split.h). Thread-safe.
class MixtureDataset final : public Dataset {
 public:
  struct Source {
    std::string name;
    std::unique_ptr<const Dataset> sequences;
  };

  // InvalidArgument, naming the sources: there is none, two have different tokenizers, or a source
  // has nothing left to train on although it was not held out wholly; or as SplitExamples has it.
  static absl::StatusOr<std::unique_ptr<const Dataset>> Create(std::vector<Source> sources,
                                                               double holdout);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  // Examples that follow one another, here from `first` on and in their source from `in_source` on.
  struct Range {
    int64_t first = 0;
    int64_t in_source = 0;
    size_t source = 0;
  };

  explicit MixtureDataset(std::vector<Source> sources) : sources_(std::move(sources)) {}

  absl::Status Divide(double holdout);

  const std::vector<Source> sources_;
  // Const after Create. In order of `first`; ranges without examples are left out.
  std::vector<Range> ranges_;
  DatasetInfo info_;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_MIXTURE_DATASET_H_
