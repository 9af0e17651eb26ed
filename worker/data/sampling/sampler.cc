#include "worker/data/sampling/sampler.h"

#include <algorithm>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/round_up.h"
#include "worker/data/sampling/permutation.h"

namespace muster {

absl::StatusOr<std::unique_ptr<const Sampler>> Sampler::Create(const SamplerOptions& given) {
  SamplerOptions options = given;
  if (options.job_data_ranks == 0) options.job_data_ranks = options.data_ranks;
  if (options.data_ranks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch for ", options.data_ranks, " data ranks; there must be at least 1"));
  }
  if (options.batch_size < options.data_ranks) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size is ", options.batch_size,
                                                   "; it must be at least 1 for each of the ",
                                                   options.data_ranks, " data ranks"));
  }
  if (options.batch_size > options.training_examples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch_size is ", options.batch_size, ", more than the ", options.training_examples,
        " training examples; lower it to at most that, or train on more data"));
  }
  if (options.data_ranks > options.job_data_ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.data_ranks, " data ranks share the batch of a job that has ",
                     options.job_data_ranks, "; there can be no more than those"));
  }
  const int64_t share = options.batch_size / options.job_data_ranks;
  if (options.micro_batches < 1 || options.micro_batches > share) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches is ", options.micro_batches, "; it must be from 1 to ", share,
                     ", a data rank's share of batch_size ", options.batch_size));
  }
  return absl::WrapUnique<const Sampler>(new Sampler(options));
}

int64_t Sampler::BatchBegin(int64_t clock) const {
  return options_.begin.examples + (clock - options_.begin.clock) * options_.batch_size;
}

int64_t Sampler::ShareBegin(int64_t data_rank) const {
  return data_rank * options_.batch_size / options_.data_ranks;
}

void Sampler::Examples(int64_t clock, int64_t data_rank, std::vector<int64_t>& examples) const {
  const int64_t first = BatchBegin(clock);
  ExamplesAt(first + ShareBegin(data_rank), first + ShareBegin(data_rank + 1), examples);
}

int64_t Sampler::MicroBatches(int64_t data_rank) const {
  const int64_t most =
      CeilDivide(CeilDivide(options_.batch_size, options_.job_data_ranks), options_.micro_batches);
  const int64_t share = ShareBegin(data_rank + 1) - ShareBegin(data_rank);
  return std::max(options_.micro_batches, CeilDivide(share, most));
}

void Sampler::MicroBatchExamples(int64_t clock, int64_t data_rank, int64_t micro_batch,
                                 std::vector<int64_t>& examples) const {
  const int64_t first = BatchBegin(clock);
  ExamplesAt(first + MicroBatchBegin(data_rank, micro_batch),
             first + MicroBatchBegin(data_rank, micro_batch + 1), examples);
}

int64_t Sampler::MicroBatchBegin(int64_t data_rank, int64_t micro_batch) const {
  const int64_t share = ShareBegin(data_rank + 1) - ShareBegin(data_rank);
  return ShareBegin(data_rank) + micro_batch * share / MicroBatches(data_rank);
}

void Sampler::ExamplesAt(int64_t begin, int64_t end, std::vector<int64_t>& examples) const {
  const int64_t n = options_.training_examples;
  examples.clear();
  examples.reserve(end - begin);
  std::optional<Permutation> order;
  for (int64_t position = begin; position < end; ++position) {
    if (!order.has_value() || position % n == 0) {
      order.emplace(options_.seed, static_cast<uint64_t>(position / n), n);
    }
    examples.push_back((*order)(position % n));
  }
}

}  // namespace muster
