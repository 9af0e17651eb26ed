#include "common/job/job_road.h"

#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {

bool RunsProgram(const v1::JobSpec& spec) { return spec.model().has_program(); }

bool TrainsByAllReduce(const v1::JobSpec& spec) {
  if (RunsProgram(spec)) return !spec.model().program().elastic();
  return spec.update().dense() == v1::UpdateSpec::ALL_REDUCE;
}

bool IsHybrid(const v1::JobSpec& spec) {
  return TrainsByAllReduce(spec) && spec.update().sparse() == v1::UpdateSpec::PARAMETER_SERVER &&
         HasSparseTables(spec);
}

bool NeedsServers(const v1::JobSpec& spec) {
  if (RunsProgram(spec)) return spec.update().dense() == v1::UpdateSpec::PARAMETER_SERVER;
  return !TrainsByAllReduce(spec) || IsHybrid(spec);
}

bool TrainsInRounds(const v1::JobSpec& spec) {
  return TrainsByAllReduce(spec) || RanksTogether(spec) > 1;
}

bool LossIsFinal(const v1::JobSpec& spec) { return LossIsFinal(spec, spec.workers()); }

bool LossIsFinal(const v1::JobSpec& spec, uint32_t ranks) {
  if (RunsProgram(spec)) return TrainsByAllReduce(spec);
  if (IsHybrid(spec)) return true;
  const v1::UpdateSpec& update = spec.update();
  if (!TrainsByAllReduce(spec) && update.deterministic() &&
      (update.wire() == v1::UpdateSpec::BF16 || update.wire() == v1::UpdateSpec::F16)) {
    return true;
  }
  if (!RanksDivideState(spec, ranks)) return false;
  return MeshOf(spec, ranks).size(kExpertCopyAxes) == 1 &&
         spec.parallelism().zero().redundancy() == 0;
}

bool MembersChangeOnServers(const v1::JobSpec& spec) {
  return spec.min_workers() > 0 && !RunsProgram(spec) && !TrainsInRounds(spec);
}

bool IsBsp(const v1::UpdateSpec& update) {
  return update.staleness_bound() == 0 && !update.unlimited_staleness();
}

bool HasSparseTables(const v1::JobSpec& spec) {
  return spec.model().model_case() != v1::ModelSpec::kMlp && !RunsProgram(spec);
}

}  // namespace muster
