#include "worker/data/sampler.h"

#include <optional>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/data/permutation.h"

namespace muster {

absl::StatusOr<std::unique_ptr<const Sampler>> Sampler::Create(const SamplerOptions& options) {
  if (options.slots < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("workers is ", options.slots, "; it must be at least 1"));
  }
  if (options.batch_size < options.slots) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size is ", options.batch_size,
                                                   "; it must be at least 1 for each of the ",
                                                   options.slots, " workers"));
  }
  if (options.batch_size > options.training_examples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch_size is ", options.batch_size, ", more than the ", options.training_examples,
        " training examples; lower it to at most that, or train on more data"));
  }
  return absl::WrapUnique<const Sampler>(new Sampler(options));
}

void Sampler::Examples(int64_t clock, int64_t slot, std::vector<int64_t>& examples) const {
  const int64_t B = options_.batch_size;
  const int64_t W = options_.slots;
  const int64_t n = options_.training_examples;
  const int64_t begin = clock * B + slot * B / W;
  const int64_t end = clock * B + (slot + 1) * B / W;
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
