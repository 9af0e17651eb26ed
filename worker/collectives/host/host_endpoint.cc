#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collectives/endpoint.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/meeting/meeting_point.h"

namespace muster {
namespace {

class HostEndpoint final : public CollectiveEndpoint {
 public:
  explicit HostEndpoint(std::unique_ptr<MeetingPoint> point) : point_(std::move(point)) {}

  std::string address() const override { return point_->address(); }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const Group& group,
                                                        absl::Duration timeout) override {
    absl::StatusOr<std::unique_ptr<HostTransport>> transport = point_->Meet(group, timeout);
    if (!transport.ok()) {
      return absl::Status(
          transport.status().code(),
          absl::StrCat(group.name, ", round ", group.round, ": ", transport.status().message()));
    }
    HostCommunicatorOptions options;
    options.name = group.name;
    options.rank_names = group.names;
    options.same_machine = (*transport)->all_shared();
    options.live = live_;
    return MakeHostCommunicator(*std::move(transport), options);
  }

  void Abort(const std::string& reason) override { live_->Abort(reason); }

 private:
  const std::unique_ptr<MeetingPoint> point_;
  const std::shared_ptr<LiveCommunicators> live_ = std::make_shared<LiveCommunicators>();
};

}  // namespace

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> MakeHostEndpoint(
    const HostEndpointOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<MeetingPoint> point, MeetingPoint::Create(options));
  return std::make_unique<HostEndpoint>(std::move(point));
}

}  // namespace muster
