#include "tests/equivalence/meeting.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collectives/host/host_communicator.h"

namespace muster {

Meeting::Meeting(int slots, const InProcessOptions& options)
    : slots_(slots), options_(options), clocks_(slots) {}

absl::StatusOr<Meeting::Place> Meeting::Arrive(int slot, absl::optional<uint64_t> replica_clock) {
  std::unique_ptr<Transport> transport;
  Place place;
  {
    absl::MutexLock lock(&mutex_);
    clocks_[slot] = replica_clock;
    const int round = rounds_ + 1;
    if (++arrived_ == slots_) {
      source_.reset();
      for (int s = 0; s < slots_; ++s) {
        if (!clocks_[s].has_value()) continue;
        if (!source_.has_value() || *clocks_[s] > *clocks_[*source_]) source_ = s;
      }
      group_ = std::make_unique<InProcessGroup>(slots_, options_);
      arrived_ = 0;
      rounds_ = round;
    }
    const auto opened = [this, round]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return rounds_ >= round || !failure_.ok();
    };
    mutex_.Await(absl::Condition(&opened));
    if (rounds_ < round) return failure_;
    transport = group_->Join(slot);
    place.source = source_;
  }
  HostCommunicatorOptions options;
  options.same_machine = options_.share_memory;
  MUSTER_ASSIGN_OR_RETURN(place.communicator, MakeHostCommunicator(std::move(transport), options));
  return place;
}

void Meeting::Fail(int slot, const absl::Status& error) {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return;
  failure_ = absl::FailedPreconditionError(
      absl::StrCat("the task of slot ", slot, " has failed: ", error.ToString()));
}

void Meeting::Kill(int slot) {
  absl::MutexLock lock(&mutex_);
  group_->Kill(slot);
}

int Meeting::rounds() const {
  absl::MutexLock lock(&mutex_);
  return rounds_;
}

}  // namespace muster
