#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_CHANNEL_LANE_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_CHANNEL_LANE_H_

#include <memory>
#include <string>

#include "common/rpc/parameter_service/exchange_lane.h"
#include "common/transport/data_channel/frame_channel.h"
#include "common/transport/data_channel/io_loop.h"

namespace muster {

// A lane over an open data channel. `done` runs on the loop's thread.
class ChannelLane final : public ExchangeLane {
 public:
  // `channel` is not started yet; `loop` drives it and outlives the lane. `address` is for
  // messages.
  ChannelLane(std::shared_ptr<FrameChannel> channel, IoLoop& loop, std::string address,
              Limits limits);
  ~ChannelLane() override;

  void Call(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
            ParameterClient::Done done) override;
  void Abort(absl::Status reason) override;
  void SetWaiting(bool waiting) override;

 private:
  class Calls;

  const std::shared_ptr<FrameChannel> channel_;
  IoLoop& loop_;
  const std::shared_ptr<Calls> calls_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_CHANNEL_LANE_H_
