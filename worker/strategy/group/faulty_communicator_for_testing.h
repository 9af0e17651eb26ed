#ifndef MUSTER_WORKER_STRATEGY_GROUP_FAULTY_COMMUNICATOR_FOR_TESTING_H_
#define MUSTER_WORKER_STRATEGY_GROUP_FAULTY_COMMUNICATOR_FOR_TESTING_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/work.h"
#include "worker/collectives/communicator.h"

namespace muster {

// The fate of one rank's calls, in all its groups.
struct Fault {
  // The rank dies before the call of this number; -1: it does not.
  int dies_before = -1;
  std::function<void()> die = [] {};
  // The rank carries the call of this name out, runs `meanwhile`, and takes the call for failed.
  std::string loses_answer_of;
  std::function<void()> meanwhile = [] {};
  // Calls are counted while this is true.
  bool armed = false;
  int calls = 0;
  bool happened = false;
};

// A communicator whose calls may meet a fault.
class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, Fault& fault)
      : inner_(std::move(inner)), fault_(fault) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Run(const CollectiveCall& call) override {
    Count();
    absl::Status status = inner_->Run(call);
    const bool loses = fault_.armed && status.ok() && call.label == fault_.loses_answer_of;
    if (!loses || fault_.loses_answer_of.empty()) return status;
    fault_.happened = true;
    fault_.meanwhile();
    return absl::UnavailableError("the answer was lost");
  }
  std::shared_ptr<Work> Start(const CollectiveCall& call) override {
    Count();
    return inner_->Start(call);
  }
  absl::StatusOr<std::unique_ptr<CollectiveBuffer>> Allocate(size_t bytes) override {
    Count();
    return inner_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key) override {
    Count();
    absl::StatusOr<std::unique_ptr<Communicator>> group = inner_->Split(colour, key);
    if (!group.ok()) return group.status();
    return std::make_unique<FaultyCommunicator>(*std::move(group), fault_);
  }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }
  const FlightRecorder& recorder() const override { return inner_->recorder(); }
  CollectiveTraffic traffic() const override { return inner_->traffic(); }

 private:
  void Count() {
    if (!fault_.armed || fault_.calls++ != fault_.dies_before) return;
    fault_.happened = true;
    fault_.die();
  }

  const std::unique_ptr<Communicator> inner_;
  Fault& fault_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_FAULTY_COMMUNICATOR_FOR_TESTING_H_
