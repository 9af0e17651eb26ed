#ifndef MUSTER_WORKER_STRATEGY_NO_CUTS_FOR_TESTING_H_
#define MUSTER_WORKER_STRATEGY_NO_CUTS_FOR_TESTING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "worker/strategy/background_cuts.h"
#include "worker/strategy/training_state.h"

namespace muster {

// Cuts of a state of which nothing outlives the process: they have no files.
class NoCuts final : public BackgroundCuts {
 public:
  absl::Status Take(uint64_t clock) override { return absl::OkStatus(); }
  void Write(uint64_t clock, absl::optional<uint64_t> base) override {}
  bool Written() const override { return true; }
  absl::StatusOr<CutFiles> AwaitFiles() override { return CutFiles(); }
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_NO_CUTS_FOR_TESTING_H_
