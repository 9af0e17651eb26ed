#include "common/job/validation/served_ranks_validator.h"

#include "absl/strings/str_cat.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "proto/job.pb.h"

namespace muster {

absl::Status ValidateServedRanks(const v1::JobSpec& spec, absl::string_view field, uint32_t ranks) {
  if (TrainsByAllReduce(spec)) return absl::OkStatus();
  const v1::UpdateSpec& update = spec.update();
  if (update.unlimited_staleness() || update.staleness_bound() > 0) {
    return Invalid(field, ranks,
                   "but the workers of a data rank must read one version of the parameters: set "
                   "update.staleness_bound 0 without update.unlimited_staleness");
  }
  if (update.wire() != v1::UpdateSpec::WIRE_TYPE_UNSPECIFIED &&
      update.wire() != v1::UpdateSpec::F32) {
    return Invalid("update.wire", v1::UpdateSpec::WireType_Name(update.wire()),
                   absl::StrCat("but update.dense is PARAMETER_SERVER and ", field, " ", ranks,
                                ", where what pushes round away is not kept: take update.wire F32, "
                                "or update.dense ALL_REDUCE"));
  }
  return absl::OkStatus();
}

}  // namespace muster
