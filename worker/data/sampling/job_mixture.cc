#include "worker/data/sampling/job_mixture.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Returns the examples before the clock if all batches between both positions are equally large.
int64_t Between(const DataPosition& from, const DataPosition& to, int64_t clock) {
  const auto examples = static_cast<double>(to.examples - from.examples);
  return from.examples + std::llround(examples * static_cast<double>(clock - from.clock) /
                                      static_cast<double>(to.clock - from.clock));
}

int64_t PositionOf(uint64_t step, int64_t batch_size, const DataPosition& begin) {
  const int64_t clock = static_cast<int64_t>(std::min<uint64_t>(step, Mixture::kEndless));
  DataPosition before;
  for (const DataPosition& position : begin.earlier) {
    if (clock < position.clock) return Between(before, position, clock);
    before = position;
  }
  if (clock < begin.clock) return Between(before, begin, clock);
  const int64_t steps = clock - begin.clock;
  if (steps >= (Mixture::kEndless - begin.examples) / batch_size) return Mixture::kEndless;
  return begin.examples + steps * batch_size;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Mixture>> MakeJobMixture(
    const v1::JobSpec& spec, absl::Span<const DatasetSource> sources, const DataPosition& begin,
    int64_t total_steps) {
  if (!spec.data().has_mixture()) return nullptr;
  std::vector<MixtureSource> mixed;
  MixtureWeights weights;
  for (int i = 0; i < spec.data().mixture().sources_size(); ++i) {
    const v1::MixtureSource& source = spec.data().mixture().sources(i);
    mixed.push_back({.name = source.name(),
                     .first = sources[i].first,
                     .examples = sources[i].training,
                     .seed = source.seed() != 0 ? source.seed()
                                                : MixBits(spec.seed() ^ Fingerprint(source.name())),
                     .epochs = source.epochs()});
    weights.weights.push_back(source.weight());
  }
  const int64_t batch_size = spec.batch_size();
  std::vector<MixtureWeights> changes = {weights};
  for (const v1::MixtureChange& change : spec.data().mixture().changes()) {
    weights.begin = PositionOf(change.step(), batch_size, begin);
    for (size_t i = 0; i < mixed.size(); ++i) {
      const auto found = change.weights().find(mixed[i].name);
      if (found != change.weights().end()) weights.weights[i] = found->second;
    }
    changes.push_back(weights);
  }
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const Mixture> mixture,
                          Mixture::Create(std::move(mixed), std::move(changes)));
  const int64_t steps = (mixture->size() - begin.examples) / batch_size;
  if (total_steps - begin.clock <= steps) return mixture;
  return absl::InvalidArgumentError(
      absl::StrCat("all sources of the mixture are used up before step ", begin.clock + steps + 1,
                   ", but the job ends at step ", total_steps,
                   "; give a source more epochs, or 0 for any number, or let the job end earlier"));
}

}  // namespace muster
