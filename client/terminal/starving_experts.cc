#include "client/terminal/starving_experts.h"

#include <cstdint>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/terminal/format.h"
#include "common/text/format_count.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

std::string Remedy(const v1::JobSpec& spec) {
  const v1::MoeSpec& moe = spec.model().transformer().moe();
  if (moe.selection_bias()) return "raise moe.bias_rate";
  const bool has_biases = spec.compute().device() != v1::ComputeSpec::CUDA;
  return absl::StrCat(moe.auxiliary_loss() > 0 ? "raise" : "set", " moe.auxiliary_loss",
                      has_biases ? ", or set moe.selection_bias" : "");
}

}  // namespace

std::vector<std::string> StarvingExperts(const v1::JobStatus& job) {
  const v1::ExpertLoads& loads = job.expert_loads();
  const uint64_t numbers = uint64_t{loads.experts()} * static_cast<uint64_t>(loads.blocks_size());
  // Another release's coordinator may mean something else.
  if (static_cast<uint64_t>(loads.tokens_size()) != numbers) return {};
  uint64_t starving = 0;
  double lowest = 1;
  uint32_t block = 0, expert = 0;
  auto tokens = loads.tokens().begin();
  for (const uint32_t each : loads.blocks()) {
    const auto end = tokens + loads.experts();
    const double mean = std::accumulate(tokens, end, 0.0) / loads.experts();
    for (uint32_t e = 0; tokens != end; ++e, ++tokens) {
      const double share = static_cast<double>(*tokens) / mean;
      if (mean < kFewestTokensOfMean || share >= kStarvingShare) continue;
      ++starving;
      if (share >= lowest) continue;
      lowest = share;
      block = each;
      expert = e;
    }
  }
  if (starving == 0) return {};
  const std::string others =
      starving > 1 ? absl::StrCat(", and ", FormatCount(starving - 1), " more") : "";
  return {absl::StrCat("expert ", expert, " of block ", block, " starves (", FormatPercent(lowest),
                       " of the mean)", others),
          Remedy(job.spec())};
}

}  // namespace muster
