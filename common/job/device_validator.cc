#include "common/job/device_validator.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/invalid.h"
#include "common/job/job_road.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Checks jobs whose parameters stay on the devices, which then do all that is done with them.
absl::Status ValidateResident(const v1::JobSpec& spec) {
  const std::string& optimizer = spec.optimizer().name();
  if (optimizer != "adam" && optimizer != "adamw") {
    return Invalid(
        "optimizer.name", absl::StrCat("\"", optimizer, "\""),
        "but compute.device is CUDA with update.dense ALL_REDUCE, where devices step the "
        "parameters and know adam and adamw; take one of them, or train on parameter "
        "servers, which know all");
  }
  if (spec.update().deterministic()) {
    return Invalid(
        "update.deterministic", "true",
        "but compute.device is CUDA with update.dense ALL_REDUCE, where NCCL chooses the "
        "order of additions; leave it out, or train on parameter servers");
  }
  if (spec.update().wire() > v1::UpdateSpec::F32) {
    return Invalid(
        "update.wire", v1::UpdateSpec::WireType_Name(spec.update().wire()),
        "but compute.device is CUDA with update.dense ALL_REDUCE, where gradients travel "
        "as F32; leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateDevice(const v1::JobSpec& spec) {
  const v1::ComputeSpec& compute = spec.compute();
  if (!v1::ComputeSpec::Device_IsValid(compute.device())) {
    return Invalid("compute.device", absl::StrCat(static_cast<int>(compute.device())),
                   "it must be CPU or CUDA");
  }
  if (compute.device() != v1::ComputeSpec::CUDA) return absl::OkStatus();
  if (!spec.model().has_transformer()) {
    return Invalid("compute.device", "CUDA",
                   "but only model.transformer computes on devices; leave it out");
  }
  return TrainsByAllReduce(spec) ? ValidateResident(spec) : absl::OkStatus();
}

}  // namespace muster
