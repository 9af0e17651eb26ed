#include "common/job/validation/zero_validator.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint32_t kMostStages = 3;

std::string StageIs(const v1::ZeroSpec& zero) {
  return absl::StrCat("but parallelism.zero.stage is ", zero.stage());
}

// Checks a job without a ZeRO stage: fields that say how a stage divides must be unset.
absl::Status ValidateNoStage(const v1::ZeroSpec& zero) {
  constexpr absl::string_view kNothing =
      "but parallelism.zero.stage is 0, which divides nothing; set the stage, or leave this out";
  if (zero.shard() > 0) return Invalid("parallelism.zero.shard", zero.shard(), kNothing);
  if (zero.redundancy() > 0) {
    return Invalid("parallelism.zero.redundancy", zero.redundancy(), kNothing);
  }
  if (zero.offload() != v1::ZeroSpec::OFFLOAD_UNSPECIFIED) {
    return Invalid("parallelism.zero.offload", v1::ZeroSpec::Offload_Name(zero.offload()),
                   kNothing);
  }
  if (zero.keep_gathered_bytes() > 0) {
    return Invalid("parallelism.zero.keep_gathered_bytes", zero.keep_gathered_bytes(), kNothing);
  }
  return absl::OkStatus();
}

// Returns the sizes above 1 that shard groups of a job with so many ranks may have, or 1 for a
// single rank.
std::string PossibleSizes(uint32_t data_ranks) {
  std::vector<std::string> sizes;
  for (uint32_t size = data_ranks == 1 ? 1 : 2; size <= data_ranks; ++size) {
    if (data_ranks % size == 0) sizes.push_back(absl::StrCat(size));
  }
  return absl::StrJoin(sizes, ", ");
}

absl::Status ValidateShard(const v1::JobSpec& spec) {
  const uint32_t shard = spec.parallelism().zero().shard();
  MUSTER_ASSIGN_OR_RETURN(const Mesh mesh,
                          Mesh::FromSpec(spec.parallelism(), static_cast<int>(spec.workers())));
  const auto data_ranks = static_cast<uint32_t>(mesh.size(kDataAxes));
  if (shard == 0 || data_ranks % shard == 0) return absl::OkStatus();
  return Invalid(
      "parallelism.zero.shard", shard,
      absl::StrCat("it must divide the data ranks, which are ", data_ranks, ": take one of ",
                   PossibleSizes(data_ranks), ", or 0, which stands for all of them"));
}

// Checks a job whose dense parameters are on servers.
absl::Status ValidateOnServers(const v1::JobSpec& spec) {
  const v1::ZeroSpec& zero = spec.parallelism().zero();
  const v1::UpdateSpec& update = spec.update();
  if (zero.stage() < 3) {
    return Invalid("parallelism.zero.stage", zero.stage(),
                   "but update.dense is PARAMETER_SERVER, where servers hold optimizer state and "
                   "sums of gradients, and workers have nothing of them to divide; take stage 3, "
                   "under which workers keep weights of units in flight alone, or update.dense "
                   "ALL_REDUCE");
  }
  if (update.unlimited_staleness() || update.staleness_bound() > 0) {
    return Invalid("parallelism.zero.stage", 3,
                   "but parameters may change between a unit's forward and backward, for which "
                   "they are pulled apart; set update.staleness_bound 0 without "
                   "update.unlimited_staleness, or take stage 0");
  }
  if (update.wire() != v1::UpdateSpec::WIRE_TYPE_UNSPECIFIED &&
      update.wire() != v1::UpdateSpec::F32) {
    return Invalid("update.wire", v1::UpdateSpec::WireType_Name(update.wire()),
                   "but parallelism.zero.stage is 3, where workers have no memory for what all "
                   "their pushes have rounded away; take update.wire F32, or stage 0");
  }
  if (zero.shard() > 0) {
    return Invalid("parallelism.zero.shard", zero.shard(),
                   "but update.dense is PARAMETER_SERVER, where the servers are the shard group: "
                   "leave it out");
  }
  if (zero.redundancy() > 0) {
    return Invalid("parallelism.zero.redundancy", zero.redundancy(),
                   "but update.dense is PARAMETER_SERVER, where workers hold no slices that could "
                   "be lost: leave it out");
  }
  if (zero.offload() != v1::ZeroSpec::OFFLOAD_UNSPECIFIED) {
    return Invalid("parallelism.zero.offload", v1::ZeroSpec::Offload_Name(zero.offload()),
                   "but update.dense is PARAMETER_SERVER, where servers hold optimizer state: "
                   "leave it out, or take update.dense ALL_REDUCE");
  }
  if (zero.keep_gathered_bytes() > 0) {
    return Invalid("parallelism.zero.keep_gathered_bytes", zero.keep_gathered_bytes(),
                   "but update.dense is PARAMETER_SERVER, where weights are pulled before each "
                   "use: leave it out, or take update.dense ALL_REDUCE");
  }
  return absl::OkStatus();
}

// Checks what a job by all-reduce keeps gathered.
absl::Status ValidateKept(const v1::JobSpec& spec) {
  const v1::ZeroSpec& zero = spec.parallelism().zero();
  if (zero.keep_gathered_bytes() > 0 && zero.stage() < 3) {
    return Invalid("parallelism.zero.keep_gathered_bytes", zero.keep_gathered_bytes(),
                   absl::StrCat(StageIs(zero),
                                ", under which all weights are kept gathered: leave it out, or "
                                "take stage 3"));
  }
  return absl::OkStatus();
}

// Checks that each rank of a shard group can own rows of sparse tables.
absl::Status ValidateRows(const v1::JobSpec& spec) {
  const uint32_t shards = SizeAlong(kShardAxes, spec);
  const uint32_t partitions = spec.update().partitions();
  const bool divides = HasSparseTables(spec) && !spec.model().has_transformer() && !IsHybrid(spec);
  if (!divides || partitions == 0 || partitions >= shards) return absl::OkStatus();
  return Invalid("update.partitions", partitions,
                 absl::StrCat("but the ", shards,
                              " ranks of a shard group divide rows of sparse tables by partition; "
                              "raise it to ",
                              shards, " at least, or leave it out"));
}

// Checks a job whose ranks are to keep copies of one another's slices.
absl::Status ValidateRedundancy(const v1::JobSpec& spec) {
  constexpr absl::string_view kField = "parallelism.zero.redundancy";
  const uint32_t redundancy = spec.parallelism().zero().redundancy();
  if (redundancy > 1) return Invalid(kField, redundancy, "it must be 0 or 1");
  const uint32_t shards = SizeAlong(kShardAxes, spec);
  if (shards == 1) {
    return Invalid(kField, redundancy,
                   "but a shard group of this job is a single rank, which divides nothing: leave "
                   "it out");
  }
  if (SizeAlong(kExpertCopyAxes, spec) > 1) {
    return Invalid(kField, redundancy,
                   absl::StrCat("but parallelism.zero.shard is ", SizeAlong(kDataShards, spec),
                                " of ", SizeAlong(kDataAxes, spec),
                                " data ranks, so other shard groups have replicas of each slice, "
                                "from which a lost worker's comes: leave it out"));
  }
  if (spec.parallelism().zero().offload() != v1::ZeroSpec::OFFLOAD_UNSPECIFIED) {
    return Invalid(kField, redundancy,
                   "but parallelism.zero.offload is OPTIMIZER_STATE, and copies of slices are in "
                   "memory: leave out one of the two");
  }
  if (IsHybrid(spec)) {
    return Invalid(kField, redundancy,
                   "but update.sparse is PARAMETER_SERVER, and servers may be a step ahead of the "
                   "copies: leave it out, and set checkpoint.every_steps, since such a job goes "
                   "back to its last checkpoint when it loses a worker; or take update.sparse "
                   "ALL_REDUCE");
  }
  return absl::OkStatus();
}

// Checks a job whose ranks divide their shards anew when they become fewer or more.
absl::Status ValidateNewShards(const v1::JobSpec& spec) {
  constexpr absl::string_view kField = "min_workers";
  const v1::ZeroSpec& zero = spec.parallelism().zero();
  if (SizeAlong(kCopyAxes, spec) > 1) {
    return Invalid(kField, spec.min_workers(),
                   absl::StrCat("but parallelism.zero.shard is ", zero.shard(), " of ",
                                SizeAlong(kDataAxes, spec),
                                " data ranks, and a group of ranks that divide the parameters must "
                                "stay whole: leave out one of the two"));
  }
  return absl::OkStatus();
}

// Checks what the job is to do when it loses a rank.
absl::Status ValidateLosses(const v1::JobSpec& spec) {
  if (DividesAnew(spec)) MUSTER_RETURN_IF_ERROR(ValidateNewShards(spec));
  // An evaluation copies the job's specification, and keeps nothing that could be lost.
  const bool keeps_copies =
      spec.parallelism().zero().redundancy() > 0 && !spec.stop().evaluate_only();
  return keeps_copies ? ValidateRedundancy(spec) : absl::OkStatus();
}

}  // namespace

absl::Status ValidateZero(const v1::JobSpec& spec) {
  const v1::ZeroSpec& zero = spec.parallelism().zero();
  if (zero.stage() > kMostStages) {
    return Invalid("parallelism.zero.stage", zero.stage(),
                   absl::StrCat("it must be at most ", kMostStages,
                                " (1 divides optimizer state, 2 sums of gradients, too, 3 weights, "
                                "too)"));
  }
  if (!v1::ZeroSpec::Offload_IsValid(zero.offload())) {
    return Invalid("parallelism.zero.offload", static_cast<int>(zero.offload()),
                   "it must be OPTIMIZER_STATE, or be left out");
  }
  if (zero.stage() == 0) return ValidateNoStage(zero);
  if (!TrainsByAllReduce(spec)) MUSTER_RETURN_IF_ERROR(ValidateOnServers(spec));
  MUSTER_RETURN_IF_ERROR(ValidateShard(spec));
  MUSTER_RETURN_IF_ERROR(ValidateRows(spec));
  MUSTER_RETURN_IF_ERROR(ValidateLosses(spec));
  return ValidateKept(spec);
}

}  // namespace muster
