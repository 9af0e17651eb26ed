#include "worker/data/sampling/sampler.h"

#include <algorithm>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/data/sampling/permutation.h"

namespace muster {

absl::StatusOr<std::unique_ptr<const Sampler>> Sampler::Create(const SamplerOptions& given) {
  SamplerOptions options = given;
  if (options.job_data_ranks == 0) options.job_data_ranks = options.data_ranks;
  if (options.data_ranks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch for ", options.data_ranks, " data ranks; there must be at least 1"));
  }
  const StepBatches::Sizes sizes = options.batches.SizesFrom(options.first_clock);
  if (sizes.smallest < options.data_ranks) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size is ", sizes.smallest,
                                                   "; it must be at least 1 for each of the ",
                                                   options.data_ranks, " data ranks"));
  }
  if (sizes.largest > options.training_examples) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", sizes.largest, ", more than the ", options.training_examples,
                     " training examples; lower it to at most that, or train on more data"));
  }
  const int64_t share = sizes.smallest / std::max(options.data_ranks, options.job_data_ranks);
  if (options.micro_batches < 1 || options.micro_batches > share) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches is ", options.micro_batches, "; it must be from 1 to ", share,
                     ", a data rank's share of batch_size ", sizes.smallest));
  }
  return absl::WrapUnique<const Sampler>(new Sampler(options));
}

BatchDivision Sampler::DivisionAt(int64_t clock) const {
  return {.batch_size = options_.batches.At(clock).size,
          .data_ranks = options_.data_ranks,
          .job_data_ranks = options_.job_data_ranks,
          .micro_batches = options_.micro_batches,
          .parts = options_.shares.At(clock, options_.data_ranks)};
}

void Sampler::MicroBatchExamples(int64_t clock, int64_t data_rank, int64_t micro_batch,
                                 std::vector<int64_t>& examples) const {
  const int64_t batch = options_.batches.At(clock).begin;
  const Share part = DivisionAt(clock).MicroBatch(data_rank, micro_batch);
  const int64_t n = options_.training_examples;
  examples.clear();
  examples.reserve(part.size());
  if (options_.mixture != nullptr) {
    options_.mixture->Append(batch + part.begin, batch + part.end, examples);
    return;
  }
  std::optional<Permutation> order;
  for (int64_t position = batch + part.begin; position < batch + part.end; ++position) {
    if (!order.has_value() || position % n == 0) {
      order.emplace(options_.seed, static_cast<uint64_t>(position / n), n);
    }
    examples.push_back((*order)(position % n));
  }
}

}  // namespace muster
