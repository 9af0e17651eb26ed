#include "common/search/algorithm_validator.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/search/rungs.h"
#include "common/search/search_error.h"
#include "proto/search.pb.h"

namespace muster {
namespace {

// Checks what all algorithms need whose trials have several jobs.
absl::Status CheckRungs(absl::string_view algorithm, const v1::SearchSpec& spec) {
  if (spec.job().stop().steps() == 0) {
    return InvalidSearch(
        "job.stop.steps", 0,
        absl::StrCat("`", algorithm, "` needs the number of steps at which the last rung ends"));
  }
  if (!spec.job().resume_from().empty()) {
    return InvalidSearch("job.resume_from", absl::StrCat("\"", spec.job().resume_from(), "\""),
                         absl::StrCat("the rungs of `", algorithm,
                                      "` count steps from 0; begin with `initial_weights`, or "
                                      "search by `random` or `grid`"));
  }
  return absl::OkStatus();
}

absl::Status CheckHalving(absl::string_view algorithm, uint64_t min_steps, uint32_t factor,
                          uint32_t usual_factor, const v1::SearchSpec& spec) {
  MUSTER_RETURN_IF_ERROR(CheckRungs(algorithm, spec));
  const uint64_t last = spec.job().stop().steps();
  if (min_steps == 0 || min_steps > last) {
    return InvalidSearch(absl::StrCat(algorithm, ".min_steps"), min_steps,
                         absl::StrCat("it must be from 1 to job.stop.steps, ", last));
  }
  if (factor == 1) {
    return InvalidSearch(absl::StrCat(algorithm, ".reduction_factor"), 1,
                         absl::StrCat("it must be at least 2, or 0 for ", usual_factor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateAlgorithm(const v1::SearchSpec& spec) {
  switch (spec.algorithm_case()) {
    case v1::SearchSpec::kAsha:
      return CheckHalving("asha", spec.asha().min_steps(), spec.asha().reduction_factor(), 4, spec);
    case v1::SearchSpec::kHyperband:
      return CheckHalving("hyperband", spec.hyperband().min_steps(),
                          spec.hyperband().reduction_factor(), 3, spec);
    default:
      return absl::OkStatus();
  }
}

}  // namespace muster
