// muster-dying-task: a task of muster-worker, for tests, that kills or stops itself at a named call
// of its training, or spoils what it sends there. The folder that MUSTER_DEATHS names may hold a
// file "slot N", with
//
//   before LABEL    the task of this slot dies before its next call of that name
//   after LABEL     it dies once the call has succeeded here
//
// or the same behind "stop ": then it stands still (SIGSTOP) instead, and its daemon has to find
// that out. Behind "spoil before " it adds 1 to the first element of what it sends by that
// collective call, as a kernel with a fault might have left it. LABEL is a collective call's name
// in the flight recorder, such as "examples and overflows", or the name of an exchange with a
// server (NameOf below), such as "push". Of collective calls that run in the background nobody sees
// the end. A task that dies removes the file, so that its successor lives.
//
// A task may also compute wrong bits (flipping_model.h), in steps that are verified:
//
//   flip once in pass N    in the N-th backward pass of the next such step; the file is removed
//   flip in every pass     in all passes of all such steps that begin then

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/mutex_tuning.h"
#include "common/partition/cut_order.h"
#include "common/rpc/memory_tuning.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"
#include "tests/recovery/flipping_model.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/endpoint.h"
#include "worker/runtime/process/task_program.h"

namespace muster {
namespace {

// Kills this process if its slot is to die now.
class Deaths {
 public:
  explicit Deaths(const std::string& slot) {
    const char* const folder = getenv("MUSTER_DEATHS");
    if (folder != nullptr) file_ = absl::StrCat(folder, "/", slot);
  }

  void Check(absl::string_view when, absl::string_view label) const {
    const std::string order = ReadOrder();
    absl::string_view point = order;
    const bool stops = absl::ConsumePrefix(&point, "stop ");
    if (point != absl::StrCat(when, " ", label)) return;
    unlink(file_.c_str());
    kill(getpid(), stops ? SIGSTOP : SIGKILL);
  }

  // Returns whether the slot is to spoil each call of this name.
  bool Spoils(absl::string_view label) const {
    return ReadOrder() == absl::StrCat("spoil before ", label);
  }

  bool OrdersFlips() const { return absl::StartsWith(ReadOrder(), "flip "); }
  // Returns whether the slot's kernels are to err in this pass of a step, counted from 1.
  bool Flips(int pass) const {
    const std::string order = ReadOrder();
    if (order == "flip in every pass") return true;
    if (order != absl::StrCat("flip once in pass ", pass)) return false;
    unlink(file_.c_str());
    return true;
  }

 private:
  // Returns the slot's order; empty: there is none.
  std::string ReadOrder() const {
    std::ifstream file(file_);
    if (!file) return "";
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string file_;
};

class DyingCommunicator final : public Communicator {
 public:
  DyingCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<const Deaths> deaths)
      : inner_(std::move(inner)), deaths_(std::move(deaths)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Run(const CollectiveCall& call) override {
    deaths_->Check("before", call.label);
    absl::Status status = inner_->Run(call);
    if (status.ok()) deaths_->Check("after", call.label);
    return status;
  }
  std::shared_ptr<Work> Start(const CollectiveCall& call) override {
    deaths_->Check("before", call.label);
    // Gradients of a bucket are summed in place.
    if (deaths_->Spoils(call.label)) *static_cast<float*>(call.out) += 1;
    return inner_->Start(call);
  }
  absl::StatusOr<std::unique_ptr<CollectiveBuffer>> Allocate(size_t bytes) override {
    return inner_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key) override {
    absl::StatusOr<std::unique_ptr<Communicator>> group = inner_->Split(colour, key);
    if (!group.ok() || *group == nullptr) return group;
    return std::make_unique<DyingCommunicator>(*std::move(group), deaths_);
  }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }
  const FlightRecorder& recorder() const override { return inner_->recorder(); }
  CollectiveTraffic traffic() const override { return inner_->traffic(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  const std::shared_ptr<const Deaths> deaths_;
};

class DyingEndpoint final : public CollectiveEndpoint {
 public:
  explicit DyingEndpoint(std::unique_ptr<CollectiveEndpoint> inner) : inner_(std::move(inner)) {}

  std::string address() const override { return inner_->address(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const Group& group,
                                                        absl::Duration timeout) override {
    absl::StatusOr<std::unique_ptr<Communicator>> world = inner_->Connect(group, timeout);
    if (!world.ok()) return world.status();
    return std::make_unique<DyingCommunicator>(
        *std::move(world), std::make_shared<const Deaths>(group.names[group.rank]));
  }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }

 private:
  const std::unique_ptr<CollectiveEndpoint> inner_;
};

// Decides whether the model of a slot's task errs.
class Flips {
 public:
  explicit Flips(const v1::TaskOrder& order)
      : slot_(absl::StrCat("slot ", order.slot())), every_(order.spec().verify_every()) {}

  bool operator()(uint64_t clock, int unit) {
    if (unit != 0 || every_ == 0 || (clock + 1) % every_ != 0) return false;
    passes_ = clock == clock_ ? passes_ + 1 : 1;
    clock_ = clock;
    // An order holds for whole steps.
    if (passes_ == 1) errs_ = Deaths(slot_).OrdersFlips();
    return errs_ && Deaths(slot_).Flips(passes_);
  }

 private:
  std::string slot_;
  uint64_t every_;
  // The clock of the last pass of the first unit, and how many there were in it.
  uint64_t clock_ = 0;
  int passes_ = 0;
  // True if there was an order when that step began.
  bool errs_ = false;
};

// Returns the name of an exchange with a server.
std::string NameOf(const v1::ExchangeRequest& request, const Payload& payload) {
  switch (request.operation_case()) {
    case v1::ExchangeRequest::kDensePush:
      return "push";
    case v1::ExchangeRequest::kSparsePush:
      return "push of rows";
    case v1::ExchangeRequest::kClose:
      return "close";
    case v1::ExchangeRequest::kDensePull:
      return "pull";
    case v1::ExchangeRequest::kSparsePull:
      return "pull of rows";
    case v1::ExchangeRequest::kClip:
      return "clip";
    case v1::ExchangeRequest::kEnter:
      return "entry";
    case v1::ExchangeRequest::kCut: {
      const absl::StatusOr<CutOrder> order = ReadCutOrder(payload);
      if (order.ok() && order->step == CutOrder::Step::kTake) return "take of the cut";
      if (order.ok() && order->step == CutOrder::Step::kWrite) return "write of the cut";
      return "cut";
    }
    case v1::ExchangeRequest::OPERATION_NOT_SET:
      break;
  }
  return "";
}

class DyingClient final : public ParameterClient {
 public:
  explicit DyingClient(std::unique_ptr<ParameterClient> inner) : inner_(std::move(inner)) {}

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration timeout) override {
    return inner_->OpenTables(request, timeout);
  }
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest& request,
                                                       absl::Duration timeout) override {
    return inner_->EndGeneration(request, timeout);
  }
  absl::Status DropTables(const std::string& job_id, absl::Duration timeout) override {
    return inner_->DropTables(job_id, timeout);
  }
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration timeout) override {
    return inner_->Stats(timeout);
  }
  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    Done watched = Watch(request, payload, std::move(done));
    inner_->Call(std::move(request), std::move(payload), std::move(watched));
  }
  void CallInto(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
                Done done) override {
    Done watched = Watch(request, payload, std::move(done));
    inner_->CallInto(std::move(request), std::move(payload), landing, std::move(watched));
  }
  void SetWaiting(bool waiting) override { inner_->SetWaiting(waiting); }
  void Abort(absl::Status reason) override { inner_->Abort(std::move(reason)); }

 private:
  // Dies if the task is to die before this exchange. Returns a `done` that dies if it is to die
  // after it.
  static Done Watch(const v1::ExchangeRequest& request, const Payload& payload, Done done) {
    const Deaths deaths(absl::StrCat("slot ", request.slot()));
    const std::string name = NameOf(request, payload);
    deaths.Check("before", name);
    return [deaths, name, done = std::move(done)](absl::StatusOr<ExchangeResult> result) {
      if (result.ok()) deaths.Check("after", name);
      done(std::move(result));
    };
  }

  const std::unique_ptr<ParameterClient> inner_;
};

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::KeepMessageMemory();
  muster::SkipDeadlockDetection();
  muster::TaskProgramParts parts;
  parts.wrap_endpoint = [](std::unique_ptr<muster::CollectiveEndpoint> endpoint) {
    return std::make_unique<muster::DyingEndpoint>(std::move(endpoint));
  };
  parts.wrap_client = [](std::unique_ptr<muster::ParameterClient> client) {
    return std::make_unique<muster::DyingClient>(std::move(client));
  };
  parts.wrap_model = [](const muster::v1::TaskOrder& order,
                        std::unique_ptr<const muster::Model> model) {
    return std::make_unique<const muster::FlippingModel>(std::move(model), muster::Flips(order));
  };
  return muster::RunTaskProgram(argc - 1, argv + 1, "muster-dying-task", parts);
}
