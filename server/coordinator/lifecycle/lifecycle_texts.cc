#include "server/coordinator/lifecycle/lifecycle_texts.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {

std::string CodeName(int code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

std::string DescribeMeeting(const v1::RendezvousRecord& met, const v1::JobSpec& spec) {
  if (RunsProgram(spec)) return PolicyName(spec);
  return absl::StrCat(met.training_examples(), " training and ", met.held_out_examples(),
                      " held-out examples, ", met.total_steps(), " steps, ", PolicyName(spec));
}

std::string WhoMet(const Rendezvous::Round& next, const v1::JobRecord& record) {
  const size_t ranks = next.peers.size(), workers = record.spec().workers();
  if (ranks < workers) return absl::StrCat("goes on with ", ranks, " of ", workers, " workers");
  if (MostWorkers(record.spec()) == workers) return absl::StrCat("all ", ranks, " slots met");
  const auto joined = std::count_if(next.peers.begin(), next.peers.end(), [&](const auto& peer) {
    return !WasMember(record, peer.slot());
  });
  const Mesh mesh = MeshOf(record.spec(), static_cast<uint32_t>(ranks));
  return absl::StrCat(ranks, " workers with ", mesh.size(kDataAxes), " data ranks, of which ",
                      joined, " joined, met");
}

std::string EndedBefore(const v1::JobRecord& record) {
  std::vector<int> done;
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    if (record.slots(slot).done()) done.push_back(slot);
  }
  if (done.empty() || !RunsProgram(record.spec())) return "";
  return absl::StrCat(" (slot ", absl::StrJoin(done, ", "), " had ended with status 0 before)");
}

std::string StartOf(const v1::JobRecord& record) {
  std::string from;
  if (record.restore_uri().empty()) {
    from = RunsProgram(record.spec()) ? ": there is no checkpoint"
                                      : ", with initial values: there is no checkpoint";
  } else if (record.restore_uri() == record.initial_uri()) {
    from = absl::StrCat(" (", record.initial_uri(), "): there is no later checkpoint");
  }
  return absl::StrCat("generation ", record.generation(), " starts again from clock ",
                      record.start_clock(), from);
}

std::string DroppedExamples(const v1::JobSpec& spec, const v1::ProgressRecord& progress) {
  if (spec.update().backup_workers() == 0) return "";
  const uint64_t computed = progress.examples() + progress.dropped_examples();
  const double share = computed == 0 ? 0
                                     : static_cast<double>(progress.dropped_examples()) /
                                           static_cast<double>(computed);
  return absl::StrFormat(
      "; %d of %d examples (%.1f %%) were dropped, since steps did not wait for the slowest "
      "workers",
      progress.dropped_examples(), computed, 100 * share);
}

std::string TellDelay(absl::Duration delay) {
  if (delay == absl::ZeroDuration()) return "";
  return absl::StrCat(", after a pause of ", absl::FormatDuration(delay),
                      ", since this came again without progress");
}

}  // namespace muster
