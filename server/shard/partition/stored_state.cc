#include "server/shard/partition/stored_state.h"

#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"

namespace muster {

v1::PartitionState StoredState::Save(uint64_t lsn) const {
  v1::PartitionState state;
  state.set_generation(parts_.job.generation());
  state.set_schema_fingerprint(parts_.job.fingerprint());
  state.set_lsn(lsn);
  state.set_start_clock(parts_.job.request().start_clock());
  state.set_clips_by_norm(parts_.job.clips_by_norm());
  parts_.checks.Save(state);
  parts_.applier.Save(state);
  parts_.cuts.Save(state);
  state.set_adopted_term(adopted_term_);
  return state;
}

absl::Status StoredState::Restore(const v1::PartitionState& state) {
  MUSTER_RETURN_IF_ERROR(parts_.checks.Restore(state));
  parts_.applier.Restore(state);
  parts_.cuts.Restore(state);
  adopted_term_ = state.adopted_term();
  return absl::OkStatus();
}

}  // namespace muster
