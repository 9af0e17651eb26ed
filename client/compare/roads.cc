#include "client/compare/roads.h"

#include "absl/strings/str_cat.h"
#include "common/job/job_validator.h"
#include "common/mesh/data_ranks.h"
#include "common/mesh/tensor_ranks.h"
#include "proto/job.pb.h"

namespace muster {

ComparableRoads RoadsOf(const v1::JobSpec& job, int staleness_bound) {
  ComparableRoads result;
  const std::string division = DivisionName(job);
  const Road all_reduce = {Road::Kind::kAllReduce,
                           absl::StrCat("all-reduce", division.empty() ? "" : ", ", division)};
  if (TensorRanks(job) > 1) {
    result.roads.push_back(all_reduce);
    result.left_out.push_back(
        "BSP, SSP and ASP: what tensor ranks exchange with servers is not predicted in this "
        "version");
    return result;
  }
  result.roads.push_back({Road::Kind::kBsp, "BSP"});
  const std::string ssp = absl::StrCat("SSP ", staleness_bound);
  std::string why;
  if (job.update().deterministic()) why = "update.deterministic needs every step to wait for all";
  if (job.clipping().by_global_norm() > 0) {
    why = "clipping.by_global_norm needs the gradients of all workers at once";
  }
  if (why.empty()) {
    result.roads.push_back({Road::Kind::kSsp, ssp});
    result.roads.push_back({Road::Kind::kAsp, "ASP"});
  } else {
    result.left_out.push_back(absl::StrCat(ssp, " and ASP: ", why));
  }
  if (job.update().wire() == v1::UpdateSpec::F16) {
    result.left_out.push_back(
        "all-reduce: update.wire is F16, and sums of workers' gradients may exceed its range; BF16 "
        "works on all roads");
  } else {
    result.roads.push_back(all_reduce);
  }
  return result;
}

ComparableRoads StagesOf(const v1::JobSpec& job) {
  ComparableRoads result;
  std::string why;
  if (DataRanks(job) < 2) why = "the job has one data rank, which has nothing to divide";
  if (job.compute().device() == v1::ComputeSpec::CUDA) {
    why = "compute.device is CUDA, and devices hold everything in this version";
  }
  for (uint32_t stage = 0; stage <= (why.empty() ? 3 : 0); ++stage) {
    result.roads.push_back({.kind = Road::Kind::kAllReduce,
                            .name = absl::StrCat("stage ", stage),
                            .zero_stage = stage});
  }
  if (!why.empty()) result.left_out.push_back(absl::StrCat("stages 1 to 3: ", why));
  return result;
}

v1::JobSpec OnRoad(const v1::JobSpec& job, const Road& road, int staleness_bound) {
  v1::JobSpec spec = job;
  spec.set_name(absl::StrCat(job.name(), " (", road.name, ")"));
  // All servers of the cluster that is made for it.
  spec.clear_servers();
  v1::UpdateSpec& update = *spec.mutable_update();
  const bool all_reduce = road.kind == Road::Kind::kAllReduce;
  // A job of the other road may ask for what this one does not know.
  update.clear_first_bucket_bytes();
  update.clear_bucket_bytes();
  if (all_reduce) {
    update.set_first_bucket_bytes(job.update().first_bucket_bytes());
    update.set_bucket_bytes(job.update().bucket_bytes());
  } else {
    spec.clear_min_workers();
    // Servers already hold the state that ranks would divide.
    spec.mutable_parallelism()->clear_zero();
  }
  if (road.zero_stage.has_value()) {
    spec.clear_min_workers();
    v1::ZeroSpec& zero = *spec.mutable_parallelism()->mutable_zero();
    if (*road.zero_stage == 0) zero.Clear();
    if (*road.zero_stage > 0) zero.set_stage(*road.zero_stage);
    // Stages 1 and 2 keep everything gathered.
    if (*road.zero_stage < 3) zero.clear_keep_gathered_bytes();
  }
  const v1::UpdateSpec::Road value =
      all_reduce ? v1::UpdateSpec::ALL_REDUCE : v1::UpdateSpec::PARAMETER_SERVER;
  update.set_dense(value);
  update.set_sparse(value);
  update.set_staleness_bound(road.kind == Road::Kind::kSsp ? staleness_bound : 0);
  update.set_unlimited_staleness(road.kind == Road::Kind::kAsp);
  // Writing between steps would be measured, too.
  update.set_durability(v1::UpdateSpec::CHECKPOINT);
  return spec;
}

}  // namespace muster
