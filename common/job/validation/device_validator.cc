#include "common/job/validation/device_validator.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// A field that jobs on devices cannot have as it is, and what to do instead.
struct Refusal {
  bool applies = false;
  absl::string_view field;
  std::string value;
  absl::string_view reason;
};

// Returns what is refused where servers step the parameters, and each device computes with all.
std::vector<Refusal> OnServers(const v1::JobSpec& spec) {
  constexpr absl::string_view kWhole =
      "but compute.device is CUDA and update.dense PARAMETER_SERVER, where each device holds and "
      "computes the whole model in this version: take update.dense ALL_REDUCE, or compute.device "
      "CPU";
  constexpr absl::string_view kOwnChoices =
      "but compute.device is CUDA and update.dense PARAMETER_SERVER, where each device counts its "
      "own choices of experts alone, and servers move no biases by devices' loads in this version: "
      "take update.dense ALL_REDUCE, or compute.device CPU";
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  const v1::MoeSpec& moe = spec.model().transformer().moe();
  const bool several = SizeAlong(kDataAxes, spec) > 1;
  const auto over = [&](uint32_t most, absl::string_view field, uint32_t value) {
    return Refusal{value > most, field, absl::StrCat(value), kWhole};
  };
  return {over(1, "parallelism.pipeline", parallelism.pipeline()),
          over(1, "parallelism.tensor", parallelism.tensor()),
          over(1, "parallelism.context", parallelism.context()),
          over(1, "parallelism.expert", parallelism.expert()),
          over(0, "parallelism.zero.stage", parallelism.zero().stage()),
          {moe.selection_bias(), "model.transformer.moe.selection_bias", "true", kOwnChoices},
          {several && moe.auxiliary_scope() == v1::MoeSpec::GLOBAL_BATCH,
           "model.transformer.moe.auxiliary_scope", "GLOBAL_BATCH", kOwnChoices},
          {several && moe.capacity_factor() > 0, "model.transformer.moe.capacity_factor",
           absl::StrCat(moe.capacity_factor()), kOwnChoices}};
}

// Returns what is refused where parameters stay on the devices, which then do all that is done with
// them.
std::vector<Refusal> Resident(const v1::JobSpec& spec) {
  const std::string& optimizer = spec.optimizer().name();
  const v1::UpdateSpec& update = spec.update();
  const v1::ZeroSpec& zero = spec.parallelism().zero();
  return {
      {optimizer != "adam" && optimizer != "adamw", "optimizer.name",
       absl::StrCat("\"", optimizer, "\""),
       "but compute.device is CUDA with update.dense ALL_REDUCE, where devices step the parameters "
       "and know adam and adamw; take one of them, or train on parameter servers, which know all"},
      {spec.optimizer().state_type() == v1::OptimizerSpec::BF16, "optimizer.state_type", "BF16",
       "but compute.device is CUDA with update.dense ALL_REDUCE, where devices step the parameters "
       "and keep their state in F32; leave it out, or train on parameter servers, which keep it"},
      {spec.optimizer().average_decay() > 0, "optimizer.average_decay",
       absl::StrCat(spec.optimizer().average_decay()),
       "but compute.device is CUDA with update.dense ALL_REDUCE, where devices step the parameters "
       "and keep no averages; leave it out, or train on parameter servers, which keep them"},
      {update.deterministic(), "update.deterministic", "true",
       "but compute.device is CUDA with update.dense ALL_REDUCE, where NCCL chooses the order of "
       "additions; leave it out, or train on parameter servers"},
      {update.wire() > v1::UpdateSpec::F32, "update.wire",
       v1::UpdateSpec::WireType_Name(update.wire()),
       "but compute.device is CUDA with update.dense ALL_REDUCE, where gradients travel as F32; "
       "leave it out"},
      {zero.offload() == v1::ZeroSpec::OPTIMIZER_STATE, "parallelism.zero.offload",
       v1::ZeroSpec::Offload_Name(zero.offload()),
       "but compute.device is CUDA, and devices hold optimizer state in their own memory: leave it "
       "out, or take compute.device CPU"},
      {zero.redundancy() > 0, "parallelism.zero.redundancy", absl::StrCat(zero.redundancy()),
       "but compute.device is CUDA, and a copy that processors step does not have the bits of a "
       "slice that a device steps: leave it out, and set checkpoint.every_steps, since the job "
       "goes "
       "back to its last checkpoint when it loses a worker; or take compute.device CPU"},
  };
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
  for (const Refusal& refusal : TrainsByAllReduce(spec) ? Resident(spec) : OnServers(spec)) {
    if (refusal.applies) return Invalid(refusal.field, refusal.value, refusal.reason);
  }
  return absl::OkStatus();
}

}  // namespace muster
