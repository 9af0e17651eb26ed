#include "server/coordinator/lifecycle/round_formation.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/job/training_data.h"
#include "server/coordinator/lifecycle/round_failures.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

constexpr size_t kSecretBytes = 32;

// Pauses start before the third round in a row without a step: one lost task causes two.
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(5);

absl::Duration PauseBefore(uint32_t meetings) {
  if (meetings <= 2) return absl::ZeroDuration();
  return std::min(kFirstPause * (1 << std::min(meetings - 3, 10u)), kLongestPause);
}

// Returns a secret from the system's random source: it keeps strangers out of a round.
std::string NewSecret() {
  std::random_device random;
  std::string secret;
  while (secret.size() < kSecretBytes) secret.push_back(static_cast<char>(random() & 0xff));
  return secret;
}

}  // namespace

RoundFormation::RoundFormation(JobTable& jobs, JobLifecycle& lifecycle, const Clock& clock,
                               absl::Duration elastic_wait)
    : jobs_(jobs), lifecycle_(lifecycle), clock_(clock), elastic_wait_(elastic_wait) {}

void RoundFormation::Arrive(Job& job, const v1::RendezvousRequest& request,
                            Call<v1::RendezvousReply> call) {
  const uint32_t slot = request.task().slot();
  const uint64_t number = job.record.round().number();
  if (request.round() > number) {
    return call.done(absl::InvalidArgumentError(
        absl::StrCat("slot ", slot, " of job ", job.id(), " says it was in round ", request.round(),
                     " of generation ", job.record.generation(), ", which had only ", number)));
  }
  const bool member = IsMember(job.record, slot);
  // The answer to the task's earlier call was lost.
  if (member && request.round() < number && RoundLasts(job.record, job.rendezvous)) {
    if (!job.open_round.has_value()) job.open_round = StoredRound(job.record);
    if (job.open_round.has_value()) return call.done(*job.open_round);
  }
  job.ParkRendezvous(slot, std::move(call));
  absl::Status same = job.rendezvous.Arrive(request);
  if (same.ok()) same = CompareWithJob(request, job.record);
  if (!same.ok()) {
    if (!CanDoWithout(job.record, slot)) return Fail(job, same);
    job.rendezvous.Forget(slot);
    return job.AnswerSlot(slot, same);
  }
  // The task was in a round before this one, to which it repeats its call.
  if (!member && request.round() > 0) job.rendezvous.SitOut(slot);
  ++job.status_version;
  if (member) job.EndGathering();
  OpenIfDue(job);
}

void RoundFormation::Fail(Job& job, const absl::Status& why) {
  AnswerParked(job, why);
  // If this cannot be stored, the tasks ask again.
  lifecycle_.Fail(job, std::string(why.message())).IgnoreError();
}

void RoundFormation::AnswerParked(Job& job, const absl::StatusOr<v1::RendezvousReply>& reply) {
  job.rendezvous.Clear();
  for (auto& [slot, parked] : std::exchange(job.rendezvous_calls, {})) parked.done(reply);
}

bool RoundFormation::GivenUp(const Job& job, uint32_t slot) const {
  if (job.record.spec().min_workers() == 0) return false;
  const TaskState& task = job.tasks[slot];
  if (task.not_awaited) return true;
  const bool placed = !job.record.slots(slot).worker_id().empty();
  if (!placed && PlacedSlots(job.record) >= job.record.spec().workers()) return true;
  return task.unplaced_since.has_value() &&
         clock_.Monotonic() - *task.unplaced_since >= elastic_wait_;
}

uint64_t RoundFormation::MeetAfter(const Job& job) const {
  const uint64_t number = job.record.round().number();
  if (number == 0 || AnyDone(job.record)) return 0;
  if (!RoundLasts(job.record, job.rendezvous)) return number;
  const auto leaves = [](const TaskState& task) { return task.leaves; };
  if (std::any_of(job.tasks.begin(), job.tasks.end(), leaves)) return number;
  // In most rounds, most of the time, nobody waits for the next one.
  if (!job.rendezvous.any()) return 0;
  bool newcomers = false;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    if (IsMember(job.record, slot)) continue;
    if (job.rendezvous.TakesPart(slot)) {
      newcomers = true;
    } else if (!job.rendezvous.Has(slot) && !GivenUp(job, slot)) {
      // The next round would have to wait for this slot.
      return 0;
    }
  }
  return newcomers ? number : 0;
}

uint64_t RoundFormation::Lost(const Job& job) const {
  if (AnyDone(job.record)) return 0;
  return HasLostTask(job.record) ? job.record.round().number() : 0;
}

void RoundFormation::OpenRounds() {
  for (const auto& [number, job] : jobs_.jobs()) OpenIfDue(*job);
}

bool RoundFormation::AllAreThere(const Job& job) const {
  if (!job.rendezvous.any()) return false;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    if (!job.rendezvous.Has(slot) && !GivenUp(job, slot)) return false;
    // The slot is given up once the rest of its round is here, and has all that it had.
    if (job.tasks[slot].leaves && job.hands_over.empty()) return false;
  }
  const size_t least = std::max(1u, job.record.spec().min_workers());
  return job.rendezvous.CountParticipants() >= least;
}

void RoundFormation::OpenIfDue(Job& job) {
  if (!IsActive(job.record.state()) || !TrainsInRounds(job.record.spec())) return;
  job.DropGoneCalls();
  if (const absl::optional<uint32_t> slot = BrokeForGood(job.record, job.rendezvous)) {
    // The job goes back. If that cannot be stored, the tasks are told and come again.
    const absl::Status status = lifecycle_.RoundBroke(job, *slot);
    if (!status.ok()) AnswerParked(job, status);
    return;
  }
  if (AllAreThere(job)) {
    OpenAfterPause(job);
  } else {
    job.all_there_since.reset();
  }
}

void RoundFormation::OpenAfterPause(Job& job) {
  const auto ranks = static_cast<uint32_t>(job.rendezvous.CountParticipants());
  const v1::JobSpec& spec = job.record.spec();
  const absl::StatusOr<Rendezvous::Round> round = job.rendezvous.PlanRound(
      TrainsByAllReduce(spec) ? std::optional(MeshOf(spec, ranks)) : std::nullopt);
  if (!round.ok()) return Fail(job, round.status());
  const absl::Duration now = clock_.Monotonic();
  if (!job.all_there_since.has_value()) {
    job.all_there_since = now;
    job.round_failures = DescribeFailures(job.rendezvous.Failures(), job.record);
  }
  if (now - *job.all_there_since < PauseBefore(CountMeetings(*round, job.record))) return;
  job.all_there_since.reset();
  Open(job, *round);
}

void RoundFormation::Open(Job& job, const Rendezvous::Round& round) {
  const bool needs_source = TrainsByAllReduce(job.record.spec()) && HasAdvanced(job.record);
  const std::string secret = NewSecret();
  const absl::Status opened =
      needs_source && !round.source.has_value()
          ? lifecycle_.ReplicasLost(job, round.lost)
          : lifecycle_.OpenRound(job, job.rendezvous.Agreed(), round, secret);
  if (!opened.ok()) return AnswerParked(job, opened);
  // No calls are left if the job went back instead.
  if (job.rendezvous_calls.empty()) return;
  v1::RendezvousReply reply = MeetingReply(job.record);
  reply.set_round(job.record.round().number());
  reply.mutable_peers()->Assign(round.peers.begin(), round.peers.end());
  if (round.source.has_value()) reply.set_source_slot(round.source->slot);
  reply.mutable_sat_out_slots()->Assign(round.sat_out.begin(), round.sat_out.end());
  reply.set_secret(secret);
  reply.mutable_leaving_slots()->Assign(job.hands_over.begin(), job.hands_over.end());
  job.hands_over.clear();
  job.open_round = reply;
  const SharedReply<v1::RendezvousReply> shared(std::move(reply));
  for (const v1::CollectivePeer& peer : shared.message().peers()) {
    job.rendezvous.Forget(peer.slot());
    auto parked = job.rendezvous_calls.extract(peer.slot());
    if (!parked.empty()) parked.mapped().Answer(shared);
  }
  // The others wait for the rest of their groups.
  for (uint32_t slot = 0; slot < job.slots(); ++slot) job.rendezvous.SitOut(slot);
}

}  // namespace muster
