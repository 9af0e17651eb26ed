#include "worker/data/sampling/job_mixture.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {

absl::StatusOr<std::shared_ptr<const Mixture>> MakeJobMixture(
    const v1::JobSpec& spec, absl::Span<const DatasetSource> sources, const StepBatches& batches,
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
  std::vector<MixtureWeights> changes = {weights};
  for (const v1::MixtureChange& change : spec.data().mixture().changes()) {
    const uint64_t step = std::min<uint64_t>(change.step(), StepBatches::kEndless);
    weights.begin = batches.At(static_cast<int64_t>(step)).begin;
    for (size_t i = 0; i < mixed.size(); ++i) {
      const auto found = change.weights().find(mixed[i].name);
      if (found != change.weights().end()) weights.weights[i] = found->second;
    }
    changes.push_back(weights);
  }
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const Mixture> mixture,
                          Mixture::Create(std::move(mixed), std::move(changes)));
  if (mixture->size() >= Mixture::kEndless) return mixture;
  // The last step whose batch the sources can fill.
  const int64_t last = batches.ClockAfter(mixture->size() + 1) - 1;
  if (total_steps <= last) return mixture;
  return absl::InvalidArgumentError(
      absl::StrCat("all sources of the mixture are used up before step ", last + 1,
                   ", but the job ends at step ", total_steps,
                   "; give a source more epochs, or 0 for any number, or let the job end earlier"));
}

}  // namespace muster
