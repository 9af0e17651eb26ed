#include "worker/data/sampling/sampler.h"

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

Sampler::Sampler(const SamplerOptions& options)
    : options_(options),
      division_({.batch_size = options.batch_size,
                 .data_ranks = options.data_ranks,
                 .job_data_ranks = options.job_data_ranks,
                 .micro_batches = options.micro_batches}) {}

void Sampler::MicroBatchExamples(int64_t clock, int64_t data_rank, int64_t micro_batch,
                                 std::vector<int64_t>& examples) const {
  const int64_t batch =
      options_.begin.examples + (clock - options_.begin.clock) * options_.batch_size;
  const Share part = division_.MicroBatch(data_rank, micro_batch);
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
